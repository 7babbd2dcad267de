// SPDX-License-Identifier: BSD-3-Clause
// A block whose reader polls while the device writes.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tern/veloblock/block_writer.h"
#include "tern/veloblock/frame.h"
#include "tern/veloblock/receive_path.h"

namespace tern {
namespace block_test {

using Look = BlockReader::Look;

// Looks again, and gives the processor away now and then only: on a busy machine, it takes long
// until it is back.
class Pause {
  public:
    void operator()() {
        if (++looks_ % 1000 == 0) std::this_thread::yield();
    }

  private:
    unsigned looks_ = 0;
};

// The reader has a thread of its own, which polls while words arrive, as with a real device. Each
// side gives up if the other one has done all that it waits for, so that no time limit is needed.
void read_while_the_device_writes(uint64_t frames, uint32_t size) {
    std::vector<uint64_t> memory(size / 8);
    uint64_t credit = 0, sent = 0, received = 0;
    uint64_t read = 0;
    bool good = true;
    std::thread receiver([&] {
        BlockReader reader;
        reader.attach(reinterpret_cast<std::byte*>(memory.data()), size);
        Word word;
        Pause pause;
        bool was_sent = false;
        while (read < frames && good) {
            const Look look = reader.look(word);
            if (look == Look::kNothing) {
                good = !was_sent;
                // Only when it matters, as it would order more than the words of the block do.
                if (__atomic_load_n(&sent, __ATOMIC_RELAXED) > read)
                    was_sent = __atomic_load_n(&sent, __ATOMIC_ACQUIRE) > read;
                else
                    pause();
                continue;
            }
            was_sent = false;
            good = look == Look::kFrame && word.sequence() == (read & 0xffff) &&
                   word.length() == read % 200;
            for (uint32_t i = 0; good && i < word.length(); ++i)
                good = reader.payload(word)[i] == static_cast<std::byte>(read + i);
            if (!good) break;
            reader.consume(word);
            ++read;
            if (reader.due()) {
                reader.framed();
                __atomic_store_n(&credit, reader.freed_units(), __ATOMIC_RELEASE);
            }
            __atomic_store_n(&received, read, __ATOMIC_RELEASE);
        }
        // The writer must stop, too.
        if (!good) __atomic_store_n(&received, UINT64_MAX, __ATOMIC_RELEASE);
    });

    BlockWriter writer;
    writer.attach(size);
    const auto store = [&](uint32_t at, uint64_t value) {
        __atomic_store_n(&memory[at / 8], value, __ATOMIC_RELEASE);
    };
    Pause pause;
    bool has_room = true, was_read = false;
    uint64_t frame = 0;
    while (frame < frames) {
        EXPECT_TRUE(
            writer.credit(static_cast<uint16_t>(__atomic_load_n(&credit, __ATOMIC_ACQUIRE))));
        const auto length = static_cast<uint32_t>(frame % 200);
        const BlockWriter::Plan plan = writer.plan(length);
        if (!plan.fits) {
            has_room = !was_read;
            if (!has_room) break;
            was_read = __atomic_load_n(&received, __ATOMIC_ACQUIRE) >= frame;
            if (!was_read) pause();
            continue;
        }
        was_read = false;
        if (plan.wrap)
            store(plan.wrap_at, Word(FrameKind::kWrap, 0, 0, 0, 0).in_round(writer.round()).raw());
        uint32_t at = plan.end - BlockWriter::body(length);
        for (uint32_t i = 0; i < padded(length); i += 8, at += 8) {
            uint64_t value = 0;
            for (uint32_t byte = 0; byte < 8; ++byte)
                value |= ((frame + i + byte) & 0xff) << 8 * byte;
            memcpy(&memory[at / 8], &value, 8);
        }
        const Word tail =
            Word(FrameKind::kActiveMessage, 0, length, 0, static_cast<uint16_t>(frame))
                .in_round(writer.round() + plan.wrap);
        store(at, plan.last ? tail.as_last().raw() : tail.raw());
        writer.commit(plan);
        ++frame;
        __atomic_store_n(&sent, frame, __ATOMIC_RELEASE);
    }
    if (!has_room) __atomic_store_n(&sent, UINT64_MAX, __ATOMIC_RELEASE);
    receiver.join();
    EXPECT_TRUE(good) << "frame " << read;
    EXPECT_TRUE(has_room) << "frame " << frame;
    EXPECT_EQ(read, frames);
}

// On a machine with much other work a thread waits for a processor each time that the block is full
// or empty. That is some hundred times, as most frames go through a larger block.
TEST(Block, ReaderMayPollWhileTheDeviceWrites) {
    read_while_the_device_writes(500, 1024);
    read_while_the_device_writes(20'000, 64 * 1024);
}

}  // namespace block_test
}  // namespace tern
