#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Results from files: what is read, and what counts as a change. tern_results.sh runs it.

    results_test.py FOLDER-OF-tern_results.py
"""
import copy
import json
import math
import random
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import tern_results as results  # pylint: disable=wrong-import-position

GOOD = {
    "schema": 1, "commit": "abc", "date": "2026-01-02T03:04:05Z", "command": "latency", "device": "softhca0:1",
    "machine": {"cpu": "A CPU", "cores": 2, "virtual": True},
    "environment": "UCX_A=b SOFTHCA_PROFILE=cx5-edr SOFTHCA_SLOW=100",
    "figures": [{"test": "trips", "x": 8, "x_text": "8 B", "name": "tern", "unit": "us", "median": 2}],
}


def parse(root):
    return results.parse("x.json", json.dumps(root).encode())


def changed(path, value):
    """A copy of GOOD with one value that is another; `...`: it is not there."""
    root = copy.deepcopy(GOOD)
    *path, last = path
    place = root
    for key in path:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return root


def figure(rounds, **members):
    entry = {**GOOD["figures"][0], "median": sorted(rounds)[len(rounds) // 2], "rounds": rounds, **members}
    if len(rounds) > 1:
        entry.update(p10=min(rounds), p90=max(rounds))
    return entry


def read_figure(entry):
    return results.figure_of({**entry, "unit": "us"})


def exact(value):
    return {**GOOD["figures"][0], "median": value}


def change(before, after):
    return results.change_of(read_figure(before), read_figure(after))


class Stored(unittest.TestCase):
    def refused(self, data):
        with self.assertRaises(results.Failure) as caught:
            results.parse("x.json", data)
        self.assertIn("x.json is not the result of a benchmark", str(caught.exception))

    def test_has_what_the_file_says(self):
        root = changed(["figures"], [
            {**figure([1, 2, 3]), "doubts": ["few rounds"], "at_most": 1.5},
            {**exact(...), "name": "rc_v", "median": None, "refused": True, "late_share": 0.06}])
        root["incomplete"] = ["interrupted"]
        result = parse(root)
        self.assertEqual((result["file"], result["profile"], result["slow"], result["date"]),
                         ("x.json", "cx5-edr", "100", "2026-01-02"))
        self.assertEqual(result["machine"], "A CPU, 2 cores, virtual")
        self.assertEqual(result["incomplete"], ["interrupted"])
        first, late = result["figures"]
        self.assertEqual(first["rounds"], [1, 2, 3])
        self.assertEqual(results.range_of(first), (1, 3))
        self.assertEqual(first["better"], "less")
        self.assertTrue(late["late"])

    def test_nests_not_deeply(self):
        deep = b"[" * 2_000_000
        for data in (b'{"schema": ' + deep + b"]" * len(deep) + b"}", deep + b"]" * len(deep), deep):
            self.refused(data)

    def test_is_whole(self):
        good = json.dumps(GOOD).encode()
        results.parse("x.json", good)
        for length in range(len(good)):
            self.refused(good[:length])

    def test_has_no_wrong_member(self):
        first = ["figures", 0]
        for path, value in (
                (["schema"], 2), (["schema"], "1"), (["schema"], True), (["schema"], ...), (["command"], 7),
                (["machine", "cores"], [2]), (["machine"], 3), (first + ["median"], "2"),
                (first + ["median"], math.inf), (first + ["median"], 10**400), (first + ["median"], ...),
                (first + ["p10"], 1), (first + ["rounds"], [None]), (first + ["rounds"], 7),
                (first + ["doubts"], [1]), (first + ["refused"], 1), (first + ["test"], None),
                (["figures"], {"a": {}}), (["figures"], [[]]), (["figures"], []), (["figures"], 2 * GOOD["figures"])):
            with self.subTest(path=path, value=str(value)[:20]):
                self.refused(json.dumps(changed(path, value)).encode())
        self.refused(json.dumps(GOOD).encode().replace(b"us", b"\xff"))
        for path in ("/dev/null", "/", "/nonexistent"):
            with self.assertRaises(results.Failure):
                results.read(path)

    def test_whatever_it_says_is_read_or_refused(self):
        chance = random.Random(1)
        good = json.dumps(GOOD).encode()
        for _ in range(5000):
            data = bytearray(good)
            for _ in range(chance.randint(1, 3)):
                data[chance.randrange(len(data))] = chance.choice(b'"{}[],:0-e\\n\x00\x80 ')
            try:
                result = results.parse("x.json", bytes(data))
                text, count, compared = results.compare(result, parse(GOOD))
                self.assertLessEqual(count, compared)
                self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
            except results.Failure as failure:
                self.assertNotRegex(str(failure), r"[\x00-\x1f\x7f-\x9f]")

    def test_cannot_control_a_terminal(self):
        for name in ("a\x1b[31m\x9b2Jb\n", "a\ud800"):
            text = parse(changed(["figures", 0, "name"], name))["figures"][0]["name"]
            self.assertNotRegex(text, r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

    def test_numbers_have_three_digits(self):
        for value, text in ((0.99996, "1.00"), (0.1234, "0.123"), (12.34, "12.3")):
            self.assertEqual(results.short(value), text)
        self.assertEqual(results.short(5468.0, True), "5468")


class Changes(unittest.TestCase):
    # The values are those of tables of the test: 5 and 5 rounds without overlap 2 / 252; U = 2 of 4 and 5: 0.064.
    def test_chance_is_that_of_the_ranks(self):
        low, high = [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]
        self.assertAlmostEqual(results.chance_of(low, high), 2 / 252)
        self.assertAlmostEqual(results.chance_of(high, low), 2 / 252)
        self.assertAlmostEqual(results.chance_of([1, 2, 3, 6], [4, 5, 7, 8, 9]), 8 / 126)
        self.assertEqual(results.chance_of([1, 2, 3], [1, 2, 3]), 1)
        self.assertEqual(results.chance_of([], [1]), 1)
        # Many rounds: by the normal distribution, which is near the exact chance.
        low, high = list(range(20)), [value + 7.5 for value in range(20)]
        counted = results.chance_of(low, high)
        self.assertAlmostEqual(math.log(results.chance_of(low + [9.7], high)), math.log(counted), delta=0.5)

    def test_are_beyond_chance_and_spread(self):
        before = figure([1.00, 1.01, 1.02, 1.03, 1.04])
        self.assertEqual(change(before, before), "")
        self.assertEqual(change(before, figure([1.05, 1.06, 1.07, 1.08, 1.09])), "changed")
        self.assertEqual(change(before, figure([1.03, 1.04, 1.05, 1.06, 1.07])), "")
        # One disturbed round of many hides nothing.
        self.assertEqual(change(figure([1] * 10 + [9]), figure([2] * 10 + [1])), "changed")
        # Three rounds never exclude chance.
        self.assertEqual(change(figure([1, 1.1, 1.2]), figure([2, 2.1, 2.2])), "perhaps")
        self.assertEqual(change(exact(1), exact(1)), "")
        self.assertEqual(change(exact(1), exact(1.00001)), "changed")
        late = {**exact(None), "refused": True}
        self.assertEqual(change(late, exact(1)), "late")
        self.assertEqual(change(late, late), "")

    # Without a difference of the two, hardly anything may be called changed.
    def test_chance_alone_makes_few(self):
        chance = random.Random(1)
        rounds = lambda: figure([chance.uniform(1, 2) for _ in range(9)])
        self.assertLessEqual(sum(change(rounds(), rounds()) == "changed" for _ in range(1000)), 20)

    def test_comparisons_say_what_is_missing(self):
        before = changed(["figures"], [exact(2), {**exact(1), "name": "rc_v"}])
        after = changed(["figures"], [exact(3)])
        after["machine"] = {"cpu": "another", "cores": 2, "virtual": False}
        text, count, compared = results.compare(parse(before), parse(after))
        self.assertEqual((count, compared), (1, 1))
        for part in ("1 of 1 figures", "+50.0 %", "worse", "1 figures only in A", "not the same: machine"):
            self.assertIn(part, text)


unittest.main()
