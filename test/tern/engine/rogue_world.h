// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "node.h"
#include "rogue.h"

namespace tern::test {

// A victim, which may have more than an engine, and a rogue that connects to it.
template <class Victim>
struct RogueWorld {
    template <class... Arguments>
    explicit RogueWorld(const Arguments&... of_victim) : victim(of_victim...) {}

    void meet() {
        rogue = std::make_unique<Rogue>();
        ASSERT_TRUE(rogue->begin(victim.engine->address()));
        ASSERT_TRUE(turn([this] { return rogue->up(); }));
    }
    bool turn(const std::function<bool()>& done) {
        return until(
            [this] {
                victim.poll();
                rogue->poll();
            },
            done);
    }
    // Whether both sides end the connection. A device may take its time to flush operations.
    bool dropped() {
        return turn([this] {
            return rogue->over() && victim.engine->connections() == 0 &&
                   victim.engine->table().size() == 0;
        });
    }

    Victim victim;
    std::unique_ptr<Rogue> rogue;
};

}  // namespace tern::test
