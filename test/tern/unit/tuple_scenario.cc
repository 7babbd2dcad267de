// SPDX-License-Identifier: BSD-3-Clause
#include "tuple_scenario.h"

#include <iterator>

namespace tern {

const char* name_of(Sabotage sabotage) {
    static constexpr const char* kNames[] = {
        "None",
        "EpochIgnored",
        "SequenceIgnored",
        "CapacityIgnored",
        "GrantsStay",
        "PostAfterGrant",
        "WildcardsIgnored",
        "MarksIgnored",
        "ClaimsIgnored",
        "VoidsNotDrained",
        "DrainsEarly",
        "NotRead",
        "ReadEarly",
        "NotAnnounced",
        "NotLookedAgain",
        "CancelAtOnce",
        "AnswerOvertakes",
        "UnbindOvertakes",
        "ConflictIgnored",
        "HeldIgnored",
        "MarksHeld",
        "TagIgnored",
        "KeyChangesAtOnce",
    };
    static_assert(std::size(kNames) == static_cast<size_t>(Sabotage::kCount));
    return kNames[static_cast<size_t>(sabotage)];
}

std::string TupleScenario::text() const {
    std::string text;
    auto add = [&text](const char* what, unsigned value) {
        text += std::string(text.empty() ? "" : ", ") + what + " " + std::to_string(value);
    };
    add("peers", peers), add("tags", tags), add("queues", queues), add("depth", depth);
    add("tuples", tuples);
    for (unsigned p = 0; p < peers; ++p) add("sends", sends[p]), add("only tag", only_tag[p]);
    add("posts", posts), add("wildcards", wildcards), add("cancels", cancels), add("binds", binds);
    add("unbinds", unbinds), add("deaths", deaths), add("longest", longest);
    add("capacity", capacity), add("sequence", sequence), add("epoch", epoch), add("late", late);
    add("slow", slow);
    add("open", open), add("exacts", exacts), add("key changes", key_changes);
    return text;
}

std::string TupleMove::text() const {
    static constexpr const char* kNames[] = {
        "send peer,tag,length", "post mask,tag,capacity", "cancel receive",   "frame of peer",
        "answer to peer",       "decision of peer",       "grant to peer",    "read answer of peer",
        "ask for queue",        "direct of peer",         "drain of queue",   "bind peer,tag",
        "unbind queue",         "death of peer",          "another key mask", "act",
        "late post to queue",   "answer overtakes",
    };
    return std::string(kNames[static_cast<size_t>(kind)]) + " " + std::to_string(a) + "," +
           std::to_string(b) + "," + std::to_string(c);
}

}  // namespace tern
