// Counts what a program in the virtual machine does between marks: cache lines that move between processors, and
// instructions. A plugin for QEMU's TCG: `-plugin count.so,out=FILE`.
//
// Marks: the program executes `nopl "REGN"(%rax)` between two regions, and `nopl "PHAS"(%rax)` to begin a new phase: long
// no-operations whose displacement is the word. No compiler emits them; `xchg %rbx,%rbx`, which looks as idle, follows
// each `cpuid` of a Rust program. What happens between two region marks of a phase is one sample. For each phase a
// line of FILE has the number of samples and the least, median and greatest of each column below.
//
// Only user mode counts: the addresses of the lower half. The model of the caches: each processor has one of its own,
// which never evicts, with lines of 64 bytes. A processor holds a line from its first access until another one writes
// it. Then
//   transfers      a load or store of a line that the processor does not hold and another one does: its data move;
//   invalidations  a store to a line that the processor holds, and others, too: no data move, but copies are dropped;
//   instructions   by all processors that belong to the work: those of a turn of waiting, which ends with `pause`, do
//                  not, unless it wrote a line that several processors have used; nor do those after the last such
//                  write (or mark) of a processor that waits;
//   on_master      the same, of the processor that executes the marks.
// A line that was only ever read moves once to each processor, which the medians do not see.
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The part of QEMU's plugin interface that is used here, version 1, by its documentation: Debian has no header for it.
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { QEMU_PLUGIN_CB_NO_REGS = 0, QEMU_PLUGIN_MEM_RW = 3 };
typedef void (*vcpu_udata_cb_t)(unsigned int vcpu, void *data);
typedef void (*vcpu_mem_cb_t)(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_udata_cb_t cb, int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, vcpu_mem_cb_t cb, int flags, int rw, void *data);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { PROCESSORS = 64, LINE = 64, LINES = 1 << 20, PHASES = 256, SAMPLES = 4096 };

// A line: which processors hold it, and whether two ever did. `key` is its number plus 1; 0 is a free place.
struct line {
    _Atomic uint64_t key;
    _Atomic uint64_t holders;
    atomic_bool shared;
};
static struct line lines[LINES];

// Written by its own processor; the master's mark reads it, a moment late or early.
static struct processor {
    _Atomic uint64_t instructions;  // counted
    uint64_t pending;               // since the last write of a shared line, mark or pause
} __attribute__((aligned(128))) processors[PROCESSORS];

static _Atomic uint64_t transfers, invalidations;

enum { TRANSFERS, INVALIDATIONS, INSTRUCTIONS, ON_MASTER, COLUMNS };
static const char *const names[COLUMNS] = {"transfers", "invalidations", "instructions", "on_master"};

struct sample {
    uint64_t column[COLUMNS];
};

// All of this belongs to the processor that executes the marks.
static struct phase {
    size_t count;
    struct sample *samples;
} phases[PHASES];
static atomic_int phase = -1;
static bool has_last;
static struct sample last;
static const char *out = "count.csv";

static struct line *find(uint64_t number) {
    for (uint64_t at = number * 0x9e3779b97f4a7c15u >> 40, tried = 0; tried < LINES; at++, tried++) {
        struct line *line = &lines[at % LINES];
        uint64_t key = atomic_load_explicit(&line->key, memory_order_relaxed);
        if (key == number + 1) {
            return line;
        }
        if (key == 0) {
            uint64_t expected = 0;
            if (atomic_compare_exchange_strong(&line->key, &expected, number + 1) || expected == number + 1) {
                return line;
            }
        }
    }
    fprintf(stderr, "count: the program uses more than %d lines: raise LINES\n", LINES);
    exit(1);
}

static void count_pending(struct processor *processor) {
    atomic_fetch_add_explicit(&processor->instructions, processor->pending, memory_order_relaxed);
    processor->pending = 0;
}

static void access_line(unsigned int vcpu, uint64_t number, bool store) {
    struct line *line = find(number);
    uint64_t me = UINT64_C(1) << vcpu;
    uint64_t before = atomic_load_explicit(&line->holders, memory_order_relaxed);
    if (store ? before != me : !(before & me)) {
        before = store ? atomic_exchange(&line->holders, me) : atomic_fetch_or(&line->holders, me);
        if (before & ~me) {
            atomic_store_explicit(&line->shared, true, memory_order_relaxed);
            atomic_fetch_add_explicit(before & me ? &invalidations : &transfers, 1, memory_order_relaxed);
        }
    }
    if (store && atomic_load_explicit(&line->shared, memory_order_relaxed)) {
        count_pending(&processors[vcpu]);
    }
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data) {
    (void)data;
    // A system call that begins in user mode writes memory of the kernel.
    if (address >> 63 || atomic_load_explicit(&phase, memory_order_relaxed) < 0) {
        return;
    }
    uint64_t end = address + (UINT64_C(1) << qemu_plugin_mem_size_shift(info)) - 1;
    for (uint64_t number = address / LINE; number <= end / LINE; number++) {
        access_line(vcpu, number, qemu_plugin_mem_is_store(info));
    }
}

static void on_instruction(unsigned int vcpu, void *data) {
    (void)data;
    processors[vcpu].pending++;
}

static void on_pause(unsigned int vcpu, void *data) {
    (void)data;
    processors[vcpu].pending = 0;
}

static struct sample look(unsigned int vcpu) {
    struct sample now = {{atomic_load(&transfers), atomic_load(&invalidations)}};
    for (unsigned int other = 0; other < PROCESSORS; other++) {
        now.column[INSTRUCTIONS] += atomic_load_explicit(&processors[other].instructions, memory_order_relaxed);
    }
    now.column[ON_MASTER] = atomic_load_explicit(&processors[vcpu].instructions, memory_order_relaxed);
    return now;
}

static void on_region(unsigned int vcpu, void *data) {
    (void)data;
    int index = atomic_load(&phase);
    if (index < 0) {
        return;
    }
    count_pending(&processors[vcpu]);
    struct sample now = look(vcpu);
    struct phase *open = &phases[index];
    if (has_last && open->count < SAMPLES) {
        struct sample *sample = &open->samples[open->count++];
        for (int column = 0; column < COLUMNS; column++) {
            sample->column[column] = now.column[column] - last.column[column];
        }
    }
    last = now;
    has_last = true;
}

static void on_phase(unsigned int vcpu, void *data) {
    (void)vcpu;
    (void)data;
    int next = atomic_load(&phase) + 1;
    if (next == PHASES || !(phases[next].samples = calloc(SAMPLES, sizeof(struct sample)))) {
        fprintf(stderr, "count: more than %d phases, or no memory\n", PHASES);
        exit(1);
    }
    has_last = false;
    atomic_store(&phase, next);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    for (size_t index = 0; index < qemu_plugin_tb_n_insns(tb); index++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, index);
        if (qemu_plugin_insn_vaddr(insn) >> 63) {
            continue;
        }
        const unsigned char *code = qemu_plugin_insn_data(insn);
        size_t size = qemu_plugin_insn_size(insn);
        vcpu_udata_cb_t callback = on_instruction;
        if (size == 7 && memcmp(code, "\x0f\x1f\x80REGN", 7) == 0) {
            callback = on_region;
        } else if (size == 7 && memcmp(code, "\x0f\x1f\x80PHAS", 7) == 0) {
            callback = on_phase;
        } else if (size == 2 && memcmp(code, "\xf3\x90", 2) == 0) {
            callback = on_pause;
        }
        qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS, NULL);
        qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
    }
}

static int by_size(const void *a, const void *b) {
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

static void on_exit_of_machine(qemu_plugin_id_t id, void *data) {
    (void)id;
    (void)data;
    FILE *file = fopen(out, "w");
    if (!file) {
        perror(out);
        return;
    }
    fprintf(file, "samples");
    for (int column = 0; column < COLUMNS; column++) {
        fprintf(file, ",%s_least,%s_median,%s_greatest", names[column], names[column], names[column]);
    }
    static uint64_t values[SAMPLES];
    for (int index = 0; index <= atomic_load(&phase); index++) {
        size_t count = phases[index].count;
        fprintf(file, "\n%zu", count);
        for (int column = 0; column < COLUMNS; column++) {
            for (size_t sample = 0; sample < count; sample++) {
                values[sample] = phases[index].samples[sample].column[column];
            }
            qsort(values, count, sizeof(uint64_t), by_size);
            size_t greatest = count ? count - 1 : 0;
            fprintf(file, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, values[0], values[count / 2], values[greatest]);
        }
    }
    fprintf(file, "\n");
    fclose(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count,
                                                               char **arguments) {
    (void)info;
    for (int index = 0; index < count; index++) {
        if (strncmp(arguments[index], "out=", 4) == 0) {
            out = strdup(arguments[index] + 4);
        } else {
            fprintf(stderr, "count: unknown argument %s; out=FILE\n", arguments[index]);
            return -1;
        }
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_of_machine, NULL);
    return 0;
}
