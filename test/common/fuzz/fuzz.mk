# SPDX-License-Identifier: BSD-3-Clause
# Builds the fuzz targets with clang, in the working folder; contrib/fuzz.sh calls it. A target is a file of this folder,
# and the sources that it needs: not the whole library, so that a target is built in seconds.
#
#   FUZZ_CXX    clang++
#   SOURCE      the source tree
#   FUZZ_FLAGS  instrumentation; others measure the coverage of lines
MAKEFLAGS += --no-builtin-rules
FUZZ_CXX = clang++
FUZZ_FLAGS = -fsanitize=fuzzer,address,undefined
test = $(SOURCE)/test
flags = -std=gnu++20 -g1 -O2 -pthread -Wall -Wextra -Werror -DTERN_ENABLE_ASSERT=1 -fno-sanitize=enum -fno-sanitize-recover=all \
	-I$(SOURCE)/src -I$(test) -I$(test)/tern/unit -I$(test)/tern/engine -I$(test)/common/fuzz -Imade

address_sources = src/tern/connection/address.cc src/tern/verbs/gid.cc src/tern/verbs/port.cc \
	src/tern/verbs/async_events.cc src/tern/base/trace.cc
packet_sources = $(address_sources) src/tern/connection/packet.cc src/tern/connection/handshake.cc
handshake_sources = $(packet_sources) test/tern/unit/handshake_world.cc
handshake_forged_sources = $(packet_sources)
block_reader_sources =
block_writer_sources =
paths_sources = test/tern/unit/paths_world.cc
transfer_sources = test/tern/unit/transfer_world.cc
transfer_forged_sources =
tuple_sources = test/tern/unit/tuple_world.cc test/tern/unit/tuple_reference.cc test/tern/unit/tuple_scenario.cc \
	test/tern/unit/tuple_arrivals.cc src/tern/tupleq/core/senders.cc src/tern/matching/posted_receives.cc
tuple_forged_sources = src/tern/tupleq/core/senders.cc src/tern/matching/posted_receives.cc
rwapi_sources = src/rwapi/bootstrap/pmi1_message.cc
trace_sources = src/bench/replay/trace.cc src/bench/report/text.cc
settings_sources = src/softhca/settings.cc src/softhca/model_file.cc src/softhca/core/faults.cc \
	src/softhca/core/nic_model.cc src/softhca/core/nic_parameters.cc src/softhca/core/nic_profiles.cc \
	src/softhca/core/personality.cc src/softhca/core/port_schedule.cc src/softhca/core/text.cc
settings_objects = $(call unit_objects,softhca/models)

# Those that need no device.
quick = address packet handshake handshake_forged block_reader block_writer paths transfer transfer_forged tuple \
	tuple_forged rwapi trace settings

# With whole libraries, a folder a unit, as src/Makefile.am makes them.
softhca_units = softhca/core softhca/fabric softhca/models softhca/transport softhca/verbs
unit_objects = $(patsubst %,objects/made/units/%.o,$(subst /,_,$(1)))
device_objects = $(call unit_objects,$(softhca_units))
tern_units = $(addprefix tern/,base connection engine matching pinning rendezvous tupleq veloblock verbs)
engine_objects = $(device_objects) $(call unit_objects,$(tern_units))
engine_sources = test/tern/engine/node.cc test/tern/engine/rogue.cc
engine_libraries = -lgtest -lgmock
direct_objects = $(engine_objects)
direct_sources = $(engine_sources)
direct_libraries = $(engine_libraries)
with_device = device engine direct

targets = $(quick) $(with_device)

.PHONY: all list-all list-quick
all: $(targets)
list-all:
	@printf '%s\n' $(targets)
list-quick:
	@printf '%s\n' $(quick)

objects_of = $(patsubst %.cc,objects/%.o,test/common/fuzz/$(1).cc $($(1)_sources))
define target
$(1): $(call objects_of,$(1)) $$($(1)_objects)
	$$(FUZZ_CXX) $$(FUZZ_FLAGS) -pthread -o $$@ $$^ $$($(1)_libraries) -libverbs -ldl
endef
$(foreach each,$(targets),$(eval $(call target,$(each))))

objects/%.o: $(SOURCE)/%.cc
	@mkdir -p $(@D)
	$(FUZZ_CXX) $(FUZZ_FLAGS) $(flags) -MMD -c -o $@ $<
objects/made/units/%.o: made/units/%.cc
	@mkdir -p $(@D)
	$(FUZZ_CXX) $(FUZZ_FLAGS) $(flags) -MMD -c -o $@ $<
# Without the device's own dlopen(), which is for programs that load libibverbs themselves.
.SECONDEXPANSION:
made/units/%.cc: $$(shell find $(SOURCE)/src/$$(subst _,/,$$*) -name '*.cc' -not -name library.cc) $$(if $$(filter softhca_fabric,$$*),$(addprefix $(SOURCE)/src/softhca/,model_file.cc settings.cc))
	@$(SOURCE)/contrib/make-unit.sh $@ $(abspath $(sort $^))
made/units/softhca_models.cc: $(wildcard $(SOURCE)/src/softhca/models/*)
	@mkdir -p $(@D) && awk -f $(SOURCE)/src/softhca/models/embed.awk $(filter %.model,$^) >$@
-include $(shell find objects -name '*.d' 2>/dev/null)
