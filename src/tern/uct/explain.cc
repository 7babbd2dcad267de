// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/explain.h"

namespace tern {
namespace {

Unused& remembered() {
    static Unused unused;
    return unused;
}

}  // namespace

void note_unused(const Unused& unused) {
    remembered() = unused;
    ExplainRecord("unused")
        .add("what", unused.what)
        .add("why", unused.why)
        .add("remedy", unused.remedy)
        .write();
}

const Unused& last_unused() {
    return remembered();
}

const char* remedy_of_port(const std::string& why) {
    if (why.ends_with("down")) return "check the cable and the switch";
    if (why.ends_with("init") || why.ends_with("armed"))
        return "start a subnet manager in the fabric";
    if (why.find("shared receive queues") != std::string::npos)
        return "use another device; over this one, UCX's own ud_verbs works (UCX_TLS=ud_verbs,self "
               "UCX_UD_VERBS_RX_QUEUE_LEN=1024)";
    return "";
}

const char* remedy_of_interface(const std::string& why) {
    if (why.find("GID") != std::string::npos)
        return "unset UCX_TERN_GID_INDEX, or give the port an address (show_gids lists them)";
    if (why.find("partition") != std::string::npos)
        return "set UCX_TERN_PKEY to a partition of the port";
    return "";
}

}  // namespace tern
