/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the release of the installed UCP and the names of its protocols as C, for the plug-in to compare with at run
 * time. */
#include <stdio.h>

#include "tern/ucp/versions.h"

int main(void) {
    const unsigned count = ucp_protocols_count();
    unsigned major, minor, release;
    unsigned i;

    ucp_get_version(&major, &minor, &release);
    puts("/* Made by list_protocols from the installed UCP. */");
    puts("#include \"tern/ucp/release.h\"\n");
    puts("static const char *const built_names[] = {");
    for (i = 0; i < count; ++i) printf("    \"%s\",\n", ucp_protocols[i]->name);
    puts("};");
    printf("static const struct ucp_release built = {%u, %u, %u, %u, built_names};\n", major, minor, release, count);
    return 0;
}
