# FlexBudget - the whole build on one page. `make help` lists what it can do.

VARIANT ?= release
BUILD   ?= build/$(VARIANT)
CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
AR      ?= ar
PYTHON  ?= python3
TUNE    ?=

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
CFLAGS := -std=c17 -g -ffp-contract=off -fno-math-errno -fvisibility=hidden $(CFLAGS_$(VARIANT)) $(WARNINGS) \
          $(if $(WERROR),-Werror) $(if $(filter native,$(TUNE)),-march=native) -Wa,-I$(CURDIR) $(EXTRA_CFLAGS)
LDFLAGS := $(filter -fsanitize=% --coverage,$(CFLAGS_$(VARIANT)))

# Float loops of the native backend are compiled once per target: same bits, other widths.
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
ifneq ($(filter x86_64-%,$(MACHINE)),)
TARGETS := plain avx2 avx512
else
TARGETS := neon
endif
TARGET_plain  := -DFB_TARGET=plain -DFB_LANES=4 -DFB_SOFT_FMA=1
TARGET_avx2   := -DFB_TARGET=avx2 -DFB_LANES=8 -mavx2 -mfma
TARGET_avx512 := -DFB_TARGET=avx512 -DFB_LANES=16 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512
TARGET_neon   := -DFB_TARGET=neon -DFB_LANES=4

ISA_SOURCES := $(wildcard src/ops/isa_*.c)
LIB_SOURCES := $(filter-out $(ISA_SOURCES),$(wildcard src/base/*.c src/ops/*.c src/model/*.c src/cache/*.c \
               src/rule/*.c src/select/*.c src/engine/*.c src/task/*.c src/stats/*.c src/store/*.c \
               src/experiment/*.c src/report/*.c rules/*.c tasks/*.c))
CLI_SOURCES := $(wildcard src/cli/*.c)
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/obj/%.o) \
               $(foreach t,$(TARGETS),$(ISA_SOURCES:%.c=$(BUILD)/obj/%.$(t).o))
CLI_OBJECTS := $(CLI_SOURCES:%.c=$(BUILD)/obj/%.o)
LIB := $(BUILD)/libflexbudget.a
PROGRAM := $(BUILD)/flexbudget

.PHONY: all
all: $(PROGRAM)

$(PROGRAM): $(CLI_OBJECTS) $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(LIB): $(LIB_OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

define isa_rule
$(BUILD)/obj/%.$(1).o: %.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(TARGET_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach t,$(TARGETS),$(eval $(call isa_rule,$(t))))

# A changed compiler or flag rebuilds everything.
$(BUILD)/flags: FORCE
	@mkdir -p $(BUILD)
	@echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)' > $@
.PHONY: FORCE
FORCE:

# The built-in model is constructed during the build and embedded.
BUILTIN := $(BUILD)/gen/builtin.gguf $(BUILD)/gen/builtin_good.gguf $(BUILD)/gen/builtin_bad.gguf $(BUILD)/gen/builtin_quiet.gguf
$(BUILD)/make_builtin_model: tools/make_builtin_model.c
	@mkdir -p $(@D)
	$(or $(HOST_CC),$(CC)) -std=c17 -O1 -ffp-contract=off $(WARNINGS) -o $@ $< -lm
$(BUILTIN) &: $(BUILD)/make_builtin_model
	@mkdir -p $(BUILD)/gen
	$< $(BUILD)/gen
$(BUILD)/obj/src/model/builtin.o: $(BUILTIN)
$(BUILD)/obj/src/model/builtin.o: CPPFLAGS += -DFB_GEN='"$(BUILD)/gen"'

# Unit tests: one program per file.
TEST_SOURCES := $(wildcard tests/unit/*.c tests/ops/*.c tests/rules/*.c tests/science/*.c tests/golden/*.c tests/cases/*.c tests/fail/*.c)
TEST_PROGRAMS := $(TEST_SOURCES:%.c=$(BUILD)/%)
$(BUILD)/tests/%: tests/%.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $< $(LIB) $(LDLIBS) -lcmocka

-include $(LIB_OBJECTS:.o=.d) $(CLI_OBJECTS:.o=.d) $(TEST_PROGRAMS:=.d)
