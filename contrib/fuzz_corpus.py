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


def covered(target, paths):
    """What each input covers, as libFuzzer notes it when it looks for the fewest that cover all. When it merges otherwise,
    it notes only what those before, which are shorter, do not cover."""
    with tempfile.TemporaryDirectory() as scratch:
        notes = os.path.join(scratch, 'notes')
        folders = [os.path.join(scratch, name) for name in ('merged', 'inputs')]
        for folder in folders:
            os.mkdir(folder)
        for number, path in enumerate(paths):
            shutil.copyfile(path, os.path.join(folders[1], str(number)))
        subprocess.run([target, '-set_cover_merge=1', f'-merge_control_file={notes}', *folders], check=True,
                       stderr=subprocess.DEVNULL)
        with open(notes, encoding='utf-8') as file:
            count = int(file.readline())
            file.readline()  # how many of them were merged before
            order = [int(os.path.basename(file.readline())) for _ in range(count)]
            lines = [line.split() for line in file if line.startswith('FT ')]
        return {paths[order[int(words[1])]]: set(words[2:]) for words in lines}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    target, kept, found = sys.argv[1:]
    os.makedirs(kept, exist_ok=True)
    paths = [os.path.join(folder, name) for folder in (kept, found) for name in os.listdir(folder)]
    inputs = covered(target, [path for path in paths if os.path.getsize(path) <= MOST_BYTES])
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
