// SPDX-License-Identifier: BSD-3-Clause
#include "tern/base/shortage.h"

#include <cstring>

namespace tern {

std::string Scarce::remedy(int error) const {
    if (error == EMFILE) return "raise the limit of open files (ulimit -n)";
    std::string text;
    if (raise != nullptr)
        text = is_full(error)
                   ? std::string("raise ") + raise
                   : "the device refuses this process, which may be a forked child that uses what "
                     "its parent has opened: have the child make its own contexts";
    if (lower != nullptr) text += std::string(text.empty() ? "lower " : ", or lower ") + lower;
    return text;
}

std::string Scarce::line(int error) const {
    return std::string("cannot have ") + what + " (" + strerror(error) + "): " + without + "; " +
           remedy(error);
}

}  // namespace tern
