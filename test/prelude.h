// SPDX-License-Identifier: BSD-3-Clause
// Included before every file of the tests, and compiled once: what most of them include, which still
// say so themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>
