#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Usage: contrib/fuzz_corpus.py TARGET KEPT FOUND

Chooses from the inputs of both folders the few, short ones that together cover most of what all of them cover, and
makes them the content of KEPT. contrib/fuzz.sh --keep calls it.
"""
import os
import shutil
import subprocess
import sys
import tempfile

MOST_FILES = 6
MOST_BYTES = 1024


def covered(target, folders):
    """What each input covers, by its path, as libFuzzer notes it when it merges corpora."""
    with tempfile.TemporaryDirectory() as scratch:
        notes = os.path.join(scratch, 'notes')
        merged = os.path.join(scratch, 'merged')
        os.mkdir(merged)
        subprocess.run([target, '-merge=1', f'-merge_control_file={notes}', merged, *folders],
                       check=True, stderr=subprocess.DEVNULL)
        with open(notes, encoding='utf-8') as file:
            lines = file.read().splitlines()
    first = 2
    files = lines[first:first + int(lines[0])]
    found = {}
    for line in lines[first + len(files):]:
        kind, number, *features = line.split()
        if kind == 'FT':
            found[files[int(number)]] = set(features)
    return found


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    target, kept, found = sys.argv[1:]
    os.makedirs(kept, exist_ok=True)
    inputs = covered(target, [kept, found])
    inputs = {path: features for path, features in inputs.items() if os.path.getsize(path) <= MOST_BYTES}
    chosen, have = [], set()
    while len(chosen) < MOST_FILES and inputs:
        best = max(inputs, key=lambda path: (len(inputs[path] - have), -os.path.getsize(path)))
        if not inputs[best] - have:
            break
        chosen.append(best)
        have |= inputs.pop(best)
    with tempfile.TemporaryDirectory() as scratch:
        for number, path in enumerate(chosen):
            shutil.copyfile(path, os.path.join(scratch, str(number)))
        for name in os.listdir(kept):
            os.remove(os.path.join(kept, name))
        for name in os.listdir(scratch):
            shutil.copyfile(os.path.join(scratch, name), os.path.join(kept, name))


main()
