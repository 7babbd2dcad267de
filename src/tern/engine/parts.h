// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tern {

class BlockPoller;
class ChannelFlush;
class CompletionPoller;
class Connector;
class ControlFrames;
class DeviceHealth;
class EarlySends;
class EngineOwner;
class FastPath;
class IdleChannels;
class OfferedBlocks;
class OneSided;
class PeerBlocks;
class Poller;
class SendRoom;
class Sleep;
class WorkRequests;
struct EngineSettings;
struct Resources;

// The objects of an engine, for those that refer to many others: they keep what they use. When they
// are made, only `settings`, `resources` and `poller` are certain to exist already.
struct EngineParts {
    const EngineSettings& settings;
    Resources& resources;
    EngineOwner& owner;
    Poller& poller;  // has the PollBudget, the PolledBlocks and the Batches
    FastPath& fast_path;
    OneSided& one_sided;
    WorkRequests& requests;
    ControlFrames& control;
    SendRoom& room;
    EarlySends& early;
    PeerBlocks& peer_blocks;
    OfferedBlocks& offered;
    BlockPoller& blocks;
    CompletionPoller& completions;
    DeviceHealth& health;
    ChannelFlush& flush;
    IdleChannels& idle;
    Connector& connector;
    Sleep& sleep;
};

}  // namespace tern
