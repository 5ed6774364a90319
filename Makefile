# FlexBudget - the whole build on one page. `make help` lists what it can do.

VARIANT ?= release
ifneq ($(filter fuzz,$(MAKECMDGOALS)),)
VARIANT := fuzz
CC      := clang
endif
ifeq ($(origin CC),default)
CC      := gcc
endif
BUILD   ?= build/$(VARIANT)
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
SECONDS ?= 60
MODEL   ?= build/models/SmolLM2-135M-Instruct.Q4_1.gguf
TORCH_VERSIONS ?= 2.10 newest
DEVICE  ?= torch:cpu
export CC

# What the goals need is installed, or named, before anything else happens.
GOALS  := $(or $(MAKECMDGOALS),all)
ifneq ($(filter all demo test,$(GOALS)),)
MAKEFLAGS += -j$(shell nproc) # unless the command line says otherwise
endif
NEEDS  := $(if $(filter-out help clean web list-checks,$(GOALS)),build) $(if $(filter test% parity,$(GOALS))$(findstring /tests/,$(GOALS)),test) \
          $(if $(filter test-torch% parity,$(GOALS)),torch) $(if $(filter test-real test-torch-real demo bench $(MODEL),$(GOALS)),model) $(if $(filter check% fuzz,$(GOALS)),check) \
          $(if $(filter digest-probe,$(GOALS)),cross)
ifneq ($(strip $(NEEDS)),)
ifneq ($(shell tools/setup.sh $(NEEDS) >&2 && echo done),done)
$(error the packages above are needed first)
endif
endif

PACKAGES := sqlite3 jansson yaml-0.1 libpcre2-8 libutf8proc
CPPFLAGS := -Iinclude -Isrc -I. -I$(BUILD)/gen -D_GNU_SOURCE $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
LDLIBS   := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm -lpthread
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wundef -Wformat=2 -Wcast-qual -Wwrite-strings \
            -Wconversion -Wdouble-promotion -Wstrict-prototypes -Wmissing-prototypes
CFLAGS_release := -O3
CFLAGS_debug   := -O0 -DFB_CHECKED
CFLAGS_asan    := -O1 -DFB_CHECKED -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_tsan    := -O1 -fsanitize=thread
CFLAGS_cover   := -O0 --coverage
CFLAGS_fuzz    := -O1 -DFB_CHECKED -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
BASE_CFLAGS := -std=c17 -g -ffp-contract=off -fno-math-errno -fPIC -fvisibility=hidden -Wa,-I$(CURDIR) -Wa,-I$(BUILD)/gen
CFLAGS  := $(BASE_CFLAGS) $(CFLAGS_$(VARIANT)) $(WARNINGS) $(if $(WERROR),-Werror) \
           $(if $(filter native,$(TUNE)),-march=native) $(EXTRA_CFLAGS)
LDFLAGS := $(filter -fsanitize=% --coverage,$(CFLAGS_$(VARIANT)))

# Float loops of the native backend are compiled once per target: same bits, other widths.
TARGETS := $(if $(filter x86_64-%,$(shell $(CC) -dumpmachine 2>/dev/null)),plain avx2 avx512,neon)
TARGET_plain  := -DFB_TARGET=plain -DFB_LANES=4 -DFB_SOFT_FMA=1
TARGET_avx2   := -DFB_TARGET=avx2 -DFB_LANES=8 -mavx2 -mfma
TARGET_avx512 := -DFB_TARGET=avx512 -DFB_LANES=16 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512
TARGET_neon   := -DFB_TARGET=neon -DFB_LANES=4

ISA_SOURCES := $(wildcard src/ops/native/isa_*.c)
LIB_SOURCES := $(filter-out $(ISA_SOURCES),$(wildcard $(foreach part,base ops ops/native ops/torch ops/shape model cache rule select engine \
               task stats store spec experiment report embed,src/$(part)/*.c) rules/*.c tasks/*.c))
CLI_SOURCES := $(wildcard src/cli/*.c)
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/obj/%.o) \
               $(foreach t,$(TARGETS),$(ISA_SOURCES:%.c=$(BUILD)/obj/%.$(t).o))
CLI_OBJECTS := $(CLI_SOURCES:%.c=$(BUILD)/obj/%.o)
LIB := $(BUILD)/libflexbudget.a
PROGRAM := $(BUILD)/flexbudget
EMBED := $(BUILD)/libflexbudget.so
EMBED_OBJECTS := $(filter $(BUILD)/obj/src/embed/%,$(LIB_OBJECTS))

# Short lines unless V=1.
ifndef V
.SILENT:
endif

.PHONY: all embed demo test test-real test-long test-torch test-torch-real test-torch-versions digest-probe bench parity fuzz web install clean help FORCE
all: $(if $(CLI_SOURCES),$(PROGRAM)) $(LIB) $(if $(filter release debug,$(VARIANT)),$(EMBED)) ## the program and the library (the default)

# Loaded rules call what error.h, op.h and rule.h declare: with the hidden rest that is what
# -rdynamic exports.
$(PROGRAM): $(CLI_OBJECTS) $(LIB)
	echo "link $@"
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(LDLIBS)

$(LIB): $(LIB_OBJECTS)
	rm -f $@
	$(AR) rcs $@ $^

# For other people's processes: what embed.h declares is exported, and for loaded rules what
# they call; what that needs is linked, and calls its own.
embed: $(EMBED) ## libflexbudget.so, for the Python module
$(EMBED): $(EMBED_OBJECTS) $(LIB)
	echo "link $@"
	$(CC) $(LDFLAGS) -shared -Wl,--no-undefined -Wl,-Bsymbolic-functions -Wl,-soname,libflexbudget.so -o $@ $^ -ldl -lpthread

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	mkdir -p $(@D)
	echo "cc   $<"
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Of the sanitizers these loops keep the checks of heap addresses; those of the stack and of
# UBSan hold their accumulators in memory, and tests take thirty times as long.
CFLAGS_isa_asan := -O3 -fno-sanitize=undefined \
                   $(if $(findstring clang,$(CC)),-mllvm -asan-stack=0,--param asan-stack=0)
define isa_rule
$(BUILD)/obj/%.$(1).o: %.c $(BUILD)/flags
	mkdir -p $$(@D)
	echo "cc   $$< ($(1))"
	$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(TARGET_$(1)) $$(CFLAGS_isa_$$(VARIANT)) -MMD -MP -c -o $$@ $$<
endef
$(foreach t,$(TARGETS),$(eval $(call isa_rule,$(t))))

# A changed compiler or flag rebuilds everything.
$(BUILD)/flags: FORCE
	mkdir -p $(BUILD)
	echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)' > $@

# What the sources that make results are, in twelve digits: stored with results, so that those of
# two builds do not mix. Written only when it changes.
RESULT_SOURCES := $(sort $(wildcard $(foreach part,include include/flexbudget rules tasks $(addprefix src/,base ops ops/native ops/torch ops/shape model \
                  cache rule select engine task experiment spec),$(part)/*.[ch])) $(wildcard data/texts/* data/*.txt))
BUILD_ID := $(BUILD)/gen/experiment/build_id.h
$(BUILD_ID): FORCE
	mkdir -p $(@D)
	id=$$(sha256sum $(RESULT_SOURCES) | sha256sum | cut -c 1-12); line="#define FB_BUILD \"$$id\""; \
	echo "$$line" | cmp -s - $@ || echo "$$line" > $@
$(BUILD)/obj/src/experiment/version.o: $(BUILD_ID)

# Embedded files: whoever has FB_EMBED in it is compiled again when one of them changes.
EMBEDDED  := $(wildcard web/vega.min.js src/store/schema.sql data/texts/* data/*.txt) \
             $(filter-out %.c %.h,$(wildcard src/report/* src/report/charts/*))
EMBEDDERS := $(shell grep -l FB_EMBED $(LIB_SOURCES) $(CLI_SOURCES) 2>/dev/null)
$(EMBEDDERS:%.c=$(BUILD)/obj/%.o): $(EMBEDDED)

# The built-in model is constructed during the build and embedded.
BUILTIN := $(BUILD)/gen/builtin.gguf $(BUILD)/gen/builtin_good.gguf $(BUILD)/gen/builtin_bad.gguf $(BUILD)/gen/builtin_quiet.gguf
$(BUILD)/make_builtin_model: tools/make_builtin_model.c
	mkdir -p $(@D)
	$(or $(HOST_CC),$(CC)) -std=c17 -O1 -ffp-contract=off $(WARNINGS) -o $@ $< -lm
$(BUILTIN) &: $(BUILD)/make_builtin_model
	mkdir -p $(BUILD)/gen
	$< $(BUILD)/gen
$(BUILD)/obj/src/model/builtin.o: $(BUILTIN)

# --- tests: tests/ROOM/test_*.c and run_*.{py,sh} are run; other .c files there are their helpers ---
ROOMS := unit ops rules property science golden cases fail cli page
FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
programs = $(patsubst %.c,$(BUILD)/%,$(wildcard $(1:%=tests/%/*.c)))
TEST_BUILT := $(call programs,$(ROOMS)) $(FUZZERS:%=$(BUILD)/tests/fuzz/replay_%)
REAL_BUILT := $(call programs,real)
ANY_BACKEND := ops/test_conformance ops/test_attention ops/test_batches property/test_ties
TESTS := $(filter $(BUILD)/tests/fuzz/% $(foreach room,$(ROOMS),$(BUILD)/tests/$(room)/test_%),$(TEST_BUILT)) \
         $(wildcard tests/cli/run.py $(ROOMS:%=tests/%/run_*.py) $(ROOMS:%=tests/%/run_*.sh))
REAL_TESTS := $(filter $(BUILD)/tests/real/test_%,$(REAL_BUILT)) $(wildcard tests/real/run_*.py tests/real/run_*.sh)
RUN_TESTS := FLEXBUDGET_PROGRAM=$(abspath $(PROGRAM)) FLEXBUDGET_BUILD=$(abspath $(BUILD)) tools/run_tests.py
LINK_TEST = echo "test $@"; $(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -rdynamic -MMD -MP -MF $@.d -o $@ $(filter %.c %.a,$^) $(LDLIBS)

$(BUILD)/tests/%: tests/%.c $(LIB) $(BUILD)/flags
	mkdir -p $(@D)
	$(LINK_TEST) -lcmocka
$(BUILD)/tests/fuzz/replay_%: tests/fuzz/fuzz_%.c tests/fuzz/replay.c $(LIB) $(BUILD)/flags
	mkdir -p $(@D)
	$(LINK_TEST) -DFB_CORPUS='"tests/fuzz/corpus/$*"'

test: all $(TEST_BUILT) ## every test; the last line is "N passed, N failed"
	$(RUN_TESTS) --timeout $(if $(filter release debug,$(VARIANT)),120,600) $(TESTS)
test-long: all $(TEST_BUILT) ## the same with loops of 10^6 and more
	FLEXBUDGET_TEST_LONG=1 $(RUN_TESTS) --timeout 3600 $(TESTS)
test-real: all $(REAL_BUILT) $(MODEL) ## the default model (fetched once) against references; LONG=1: all documents
	$(if $(LONG),FLEXBUDGET_TEST_LONG=1) FLEXBUDGET_TEST_MODEL=$(abspath $(MODEL)) \
	    $(RUN_TESTS) --jobs 1 --timeout $(if $(LONG),3600,480) $(REAL_TESTS)
$(MODEL):
	tools/fetch_model.sh $@

# --- the second backend: tests/torch, and what every backend must pass of the other rooms ---
TORCH_BUILT := $(call programs,torch)
TORCH_TESTS := $(filter $(BUILD)/tests/torch/test_%,$(TORCH_BUILT)) $(wildcard tests/torch/run_*.py) tests/cli/run_torch.py \
               $(ANY_BACKEND:%=$(BUILD)/tests/%)
TORCH_REAL := $(BUILD)/tests/torch/test_default_experiment
TORCH_RUN = torch=$$(tools/torch.sh $(1)) && FLEXBUDGET_TORCH=$$torch FLEXBUDGET_TEST_DEVICE=$(DEVICE) OMP_WAIT_POLICY=passive \
            FLEXBUDGET_TEST_MODEL=$(abspath $(MODEL)) $(if $(LONG),FLEXBUDGET_TEST_LONG=1) \
            $(RUN_TESTS) --jobs 1 --timeout $(if $(LONG),3600,480) $(or $(2),$(TORCH_TESTS))

test-torch: all $(TORCH_BUILT) $(ANY_BACKEND:%=$(BUILD)/tests/%) ## the second backend on the newest PyTorch (fetched once); TORCH=PATH: on this one
	$(call TORCH_RUN,$(TORCH))
test-torch-real: LONG := 1
test-torch-real: all $(TORCH_REAL) $(MODEL) ## the default experiment on both backends, entry by entry
	$(call TORCH_RUN,$(TORCH),$(TORCH_REAL))
test-torch-versions: all $(TORCH_BUILT) $(ANY_BACKEND:%=$(BUILD)/tests/%) ## the same on the oldest that is taken and the newest
	for version in $(TORCH_VERSIONS); do $(call TORCH_RUN,$$version) || exit 1; done

$(BUILD)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(LIB) $(BUILD)/flags
	mkdir -p $(@D)
	$(LINK_TEST) -fsanitize=fuzzer
fuzz: $(if $(TARGET),$(BUILD)/tests/fuzz/fuzz_$(TARGET)) ## TARGET=gguf SECONDS=60: look for crashes with libFuzzer
	test -n "$(TARGET)" || { echo "TARGET is one of: $(FUZZERS)"; exit 2; }
	mkdir -p $(BUILD)/found/$(TARGET)
	$< -max_total_time=$(SECONDS) -rss_limit_mb=1024 -timeout=10 -artifact_prefix=$(BUILD)/found/ $(BUILD)/found/$(TARGET) tests/fuzz/corpus/$(TARGET)

# --- the same digest on every CPU: only libc and threads, so that it runs under qemu ---
PROBE := $(wildcard tests/probe/*.c)
PROBE_SOURCES := $(PROBE) $(filter-out src/ops/torch/%.c src/rule/load.c %/json.c %/yaml.c %/terminal.c %/shown.c,$(filter $(foreach part,base ops model cache \
                 rule select engine,src/$(part)/%) rules/%,$(LIB_SOURCES) $(ISA_SOURCES)))
PROBE_OBJECTS := $(PROBE_SOURCES:%.c=build/aarch64/obj/%.o)
CROSS := aarch64-linux-gnu-gcc

$(BUILD)/digest_probe: $(PROBE) $(LIB) $(BUILD)/flags
	$(LINK_TEST)
build/aarch64/digest_probe: build/aarch64/libprobe.a
	$(CROSS) -static -o $@ $(PROBE:%.c=build/aarch64/obj/%.o) $< -lpthread
build/aarch64/libprobe.a: $(PROBE_OBJECTS)
	rm -f $@
	aarch64-linux-gnu-ar rcs $@ $^
build/aarch64/obj/%.o: %.c $(BUILTIN) Makefile
	mkdir -p $(@D)
	echo "cc   $< (aarch64)"
	$(CROSS) $(CPPFLAGS) $(BASE_CFLAGS) -O3 $(TARGET_neon) -MMD -MP -c -o $@ $<
digest-probe: $(if $(PROBE),$(BUILD)/digest_probe build/aarch64/digest_probe) ## the same bits: plain, AVX2, AVX-512, aarch64
	tools/digest_probe.sh $(BUILD)/digest_probe build/aarch64/digest_probe

# --- checks: tools/check_NAME.sh or .py each; `make check-NAME` runs one ---
CHECKS := format layers headers errors docs scripts warnings symbols tidy
check: $(CHECKS:%=check-%) ## format, layers, headers, errors, documents, warnings, symbols, tidy
check-symbols: $(PROGRAM) $(LIB) $(EMBED)
check-warnings check-tidy: $(BUILD_ID)
$(CHECKS:%=check-%): check-%:
	CHECK_FLAGS='$(CPPFLAGS) $(BASE_CFLAGS) $(WARNINGS)' BUILD=$(BUILD) tools/check_$*.[sp]* && echo "check-$*: passed"
list-checks:
	echo $(CHECKS)
.PHONY: check list-checks $(CHECKS:%=check-%)

demo: all ## the default experiment on the default model, and report.html
	tools/demo.sh $(PROGRAM) $(MODEL)
bench: $(BUILD)/bench/engine_bench $(MODEL) ## speed side by side with transformers and kvpress
	bench/bench.sh
$(BUILD)/bench/%: bench/%.c $(LIB) $(BUILD)/flags
	mkdir -p $(@D)
	$(LINK_TEST)
PARITY := $(BUILD)/tests/parity/keep
parity: all $(PARITY) ## kept sets beside those of a fresh run of kvpress, on small random models
	python=$$(bench/venv.sh) && $$python tests/parity/parity.py $(PARITY) $(PROGRAM) build/parity
web: ## the chart library of the page anew, from npm; needs node
	tools/web.sh
install: all ## PREFIX=/usr/local DESTDIR=: program, library, headers, pkg-config file
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include/flexbudget
	install $(PROGRAM) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(LIB) $(EMBED) $(DESTDIR)$(LIBDIR)
	install -m 644 include/flexbudget/*.h $(DESTDIR)$(PREFIX)/include/flexbudget
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@PACKAGES@|$(PACKAGES)|' \
	    -e "s|@VERSION@|$$(sed -n 's/^.define FB_VERSION "\(.*\)"/\1/p' src/experiment/version.h)|" \
	    tools/flexbudget.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/flexbudget.pc
clean: ## removes build/ but for what was fetched: models and PyTorch
	test ! -d build || find build -mindepth 1 -maxdepth 1 ! -name models ! -name 'torch-venv*' -exec rm -rf {} +
help: ## this list
	awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile
	echo; echo "  VARIANT=release|debug|asan|tsan|cover   CC=gcc|clang   TUNE=native   WERROR=1   V=1"

-include $(LIB_OBJECTS:.o=.d) $(CLI_OBJECTS:.o=.d) $(TEST_BUILT:=.d) $(REAL_BUILT:=.d) $(TORCH_BUILT:=.d) $(PARITY).d $(PROBE_OBJECTS:.o=.d)
