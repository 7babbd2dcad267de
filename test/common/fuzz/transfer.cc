// SPDX-License-Identifier: BSD-3-Clause
// The sender and the receiver of a long message, with everything between them late: the fuzzer
// chooses the message, its parts and the order of events. The rules are those of the unit tests.
#include "fuzz.h"
#include "transfer_world.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tern;
    Random random(std::span(data, size));
    const test::TransferCase what = test::any_case(random);
    // Longer ones only repeat themselves.
    if (SubBlocks::count(what.parts.front().upto) > 300 && !what.parts.front().placed) return 0;
    test::TransferWorld world(random);
    const std::string wrong = world.run(what);
    if (!wrong.empty()) fuzz::broken(wrong + ": " + what.describe());
    return 0;
}
