# SPDX-License-Identifier: BSD-3-Clause
#
# embed.awk FILE.model...: the source of model_texts() (softhca/core/nic_profiles.h), with the texts of the files.
BEGIN {
    print "// Made by softhca/models/embed.awk from the model files beside it."
    print "#include \"softhca/core/nic_profiles.h\""
    print "namespace softhca {"
    print "std::span<const ModelText> model_texts() {"
    print "    static constexpr ModelText kTexts[] = {"
}
FNR == 1 {
    if (NR != 1) print ")model\"},"
    name = FILENAME
    sub(/.*\//, "", name)
    sub(/\.model$/, "", name)
    printf "{\"%s\", R\"model(", name
}
{ print }
END {
    print ")model\"}};"
    print "    return kTexts;"
    print "}"
    print "}  // namespace softhca"
}
