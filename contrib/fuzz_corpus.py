#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Usage: contrib/fuzz_corpus.py TARGET KEPT FOUND

Chooses from the inputs of both folders the few, short ones that together cover most of what all of them cover, and
makes them the content of KEPT. contrib/fuzz.sh --keep calls it.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

MOST_FILES = 6
MOST_BYTES = 1024


def covered(target, path):
    """What an input covers, as libFuzzer notes it when it merges corpora. Of several inputs at once it would note only
    what those before, which are shorter, do not cover."""
    with tempfile.TemporaryDirectory() as scratch:
        notes = os.path.join(scratch, 'notes')
        folders = [os.path.join(scratch, name) for name in ('merged', 'only')]
        for folder in folders:
            os.mkdir(folder)
        shutil.copy(path, folders[1])
        subprocess.run([target, '-merge=1', f'-merge_control_file={notes}', *folders], check=True,
                       stderr=subprocess.DEVNULL)
        with open(notes, encoding='utf-8') as file:
            return {feature for line in file if line.startswith('FT ') for feature in line.split()[2:]}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    target, kept, found = sys.argv[1:]
    os.makedirs(kept, exist_ok=True)
    paths = [os.path.join(folder, name) for folder in (kept, found) for name in os.listdir(folder)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        short = [path for path in paths if os.path.getsize(path) <= MOST_BYTES]
        inputs = dict(zip(short, pool.map(lambda path: covered(target, path), short)))
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
