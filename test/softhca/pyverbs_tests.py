# SPDX-License-Identifier: BSD-3-Clause
"""Runs rdma-core's Python tests and says of each what came of it.

Usage: pyverbs_tests.py FOLDER [TEST]

FOLDER has rdma-core's folder `tests`. With TEST, only what follows it is run. Lines of the output, besides whatever the
tests print themselves: "@ started|passed|failed|skipped TEST [reason]", and "@ end".
"""
import os
import sys
import unittest


def say(what, test, reason=''):
    reason = ' '.join(str(reason).split())
    sys.stdout.flush()
    os.write(1, f'@ {what} {test.id()} {reason}'.rstrip().encode() + b'\n')


class Result(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        say('started', test)

    def addSuccess(self, test):
        say('passed', test)

    def addSkip(self, test, reason):
        say('skipped', test, reason)

    def addFailure(self, test, error):
        say('failed', test, self._exc_info_to_string(error, test).splitlines()[-1])

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(test, error)


def use_loopback(test, device, port, gid):
    """The tests of rdma_cm look for the network interface of the device in sysfs, and need no more than its address."""
    test.args.append([device, port, gid, '127.0.0.1', '02:73:66:00:00:01'])


def flatten(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from flatten(one)
        else:
            yield one


def main():
    folder = os.path.abspath(sys.argv[1])
    behind = sys.argv[2] if len(sys.argv) > 2 else None
    os.chdir(folder)
    sys.argv[1:] = []
    sys.path[:0] = [folder, os.path.join(folder, 'tests')]
    import args_parser
    args_parser.parser.parse_args()
    import tests
    from tests.test_rdmacm import CMTestCase
    CMTestCase._get_ip_mac = use_loopback
    for module in tests.__test_modules__:
        for test in flatten(unittest.defaultTestLoader.loadTestsFromModule(module)):
            if behind is None:
                unittest.TestSuite([test]).run(Result())
            elif test.id() == behind:
                behind = None
    os.write(1, b'@ end\n')


main()
