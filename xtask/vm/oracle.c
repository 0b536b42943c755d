// Counts the memory accesses of a program in the virtual machine that miss a processor's cache, for each processor and
// each node that the accessed frame is on: what the reference counters of a machine with several nodes would say. A
// plugin for QEMU's TCG: `-plugin oracle.so,out=FILE,nodemb=M[,cachekb=K][,slow=S]`; nodes of M MiB each.
//
// While an iteration is counted each miss also takes its time, the paper's latency times S, so that a clock in the
// machine knows distances, too. A virtual processor sleeps for it, now and then for many misses together: the others
// go on, as they would beside it.
//
// Marks: long no-operations whose displacement is a word, which no compiler emits:
//   nopl "NOD0"(%rax) .. "NOD3"   the next instruction writes to a page that the program knows to be on this node;
//   nopl "BRUN"(%rax)             a run begins: empty caches, no counts;
//   nopl "BITR"(%rax), "EITR"     an iteration begins, ends: a line of FILE;
//   nopl "ERUN"(%rax)             a run ends: another line.
// A line is `run,kind,number` and for each processor its instructions and its misses on each node. Kinds: `iteration`;
// `all`, the sum of the run's iterations; `best`, the same misses if each frame had been, all the time, on the node
// where they cost least by the paper's latencies (an exhaustive search, since frames do not depend on one another);
// `calibration`: marked pages, and those of them that the plugin saw on another node.
//
// Only user mode counts: addresses of the lower half. The model of the caches: each processor has one, of eight ways (the
// oldest is replaced), with lines of 64 bytes. The virtual address says which set, so that it is no matter of luck which
// frames a run gets; the physical address is the tag. Each line has a number that counts its writes: a
// processor's copy of an older number is no copy any more, so that what another processor wrote is a miss.
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The part of QEMU's plugin interface that is used here, version 1, by its documentation: Debian has no header for it.
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
enum { QEMU_PLUGIN_CB_NO_REGS = 0, QEMU_PLUGIN_MEM_RW = 3 };
typedef void (*vcpu_udata_cb_t)(unsigned int vcpu, void *data);
typedef void (*vcpu_mem_cb_t)(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, vcpu_udata_cb_t cb, int flags, void *data);
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
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { PROCESSORS = 8, NODES = 4, PER_NODE = PROCESSORS / NODES, LINE_SHIFT = 6, PAGE_SHIFT = 12, WAYS = 8 };

// The paper's latencies of the machine that the guest is: its nodes are a square (see `DISTANCES` in guest.rs).
static const unsigned hops[NODES][NODES] = {{0, 1, 2, 1}, {1, 0, 1, 2}, {2, 1, 0, 1}, {1, 2, 1, 0}};
static const uint64_t latency[3] = {329, 564, 759};

struct entry {
    uint64_t line;  // its number plus 1
    uint32_t writes;
};

static struct processor {
    uint64_t instructions, misses[NODES];
    uint64_t all_instructions, all_misses[NODES];
    struct entry *cache;  // WAYS entries a set, the newest one first
    int64_t owed;         // nanoseconds of misses that it has not slept for
} __attribute__((aligned(128))) processors[PROCESSORS];

static const char *out = "oracle.csv";
static FILE *file;
static uint64_t node_bytes, sets = 256, frames, slow;
static _Atomic uint32_t *writes;         // of each line
static uint32_t (*touched)[PROCESSORS];  // of each frame: misses of the run
static atomic_bool counts;
static int run = -1, iteration;
static uint64_t calibrated, misplaced;

// What the emulator calls a physical address has the offset of the node's memory in it twice.
static uint64_t node_of(uint64_t physical) {
    return physical / (2 * node_bytes);
}

static bool find(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, uint64_t *physical) {
    if (address >> 63 || vcpu >= PROCESSORS) {
        return false;
    }
    struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, address);
    if (!where || qemu_plugin_hwaddr_is_io(where)) {
        return false;
    }
    *physical = qemu_plugin_hwaddr_phys_addr(where);
    return *physical >> PAGE_SHIFT < frames;
}

// Sleeps once it is worth the call.
static void wait_for_memory(struct processor *processor, uint64_t nanoseconds) {
    enum { WORTH = 500000 };
    processor->owed += (int64_t)nanoseconds;
    if (processor->owed < WORTH) {
        return;
    }
    struct timespec begin, end, time = {processor->owed / 1000000000, processor->owed % 1000000000};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    nanosleep(&time, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    processor->owed -= (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data) {
    (void)data;
    uint64_t physical;
    if (!atomic_load_explicit(&counts, memory_order_relaxed) || !find(vcpu, info, address, &physical)) {
        return;
    }
    struct processor *processor = &processors[vcpu];
    uint64_t line = physical >> LINE_SHIFT;
    struct entry *set = &processor->cache[(address >> LINE_SHIFT) % sets * WAYS];
    uint32_t written = atomic_load_explicit(&writes[line], memory_order_relaxed);
    int way = 0;
    while (way < WAYS - 1 && set[way].line != line + 1) {
        way++;
    }
    bool hit = set[way].line == line + 1 && set[way].writes == written;
    if (way > 0) {
        memmove(&set[1], &set[0], (size_t)way * sizeof set[0]);
    }
    set[0] = (struct entry){line + 1, written};
    if (!hit) {
        uint64_t node = node_of(physical);
        processor->misses[node]++;
        // Two processors of a frame write two words.
        touched[physical >> PAGE_SHIFT][vcpu]++;
        if (slow > 0) {
            wait_for_memory(processor, slow * latency[hops[vcpu / PER_NODE][node]]);
        }
    }
    if (qemu_plugin_mem_is_store(info)) {
        set[0].writes = atomic_fetch_add_explicit(&writes[line], 1, memory_order_relaxed) + 1;
    }
}

static void on_block(unsigned int vcpu, void *data) {
    if (vcpu < PROCESSORS) {
        processors[vcpu].instructions += (uintptr_t)data;
    }
}

static void on_calibration(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data) {
    uint64_t physical;
    calibrated++;
    if (!find(vcpu, info, address, &physical) || node_of(physical) != (uintptr_t)data) {
        misplaced++;
    }
}

static void print(const char *kind, int number, uint64_t instructions[], uint64_t misses[][NODES]) {
    fprintf(file, "%d,%s,%d", run, kind, number);
    for (int p = 0; p < PROCESSORS; p++) {
        fprintf(file, ",%" PRIu64, instructions[p]);
        for (int node = 0; node < NODES; node++) {
            fprintf(file, ",%" PRIu64, misses[p][node]);
        }
    }
    fprintf(file, "\n");
}

static void on_run(unsigned int vcpu, void *data) {
    (void)vcpu;
    (void)data;
    run++;
    iteration = 0;
    memset(touched, 0, frames * sizeof touched[0]);
    for (int p = 0; p < PROCESSORS; p++) {
        struct processor *processor = &processors[p];
        memset(processor->cache, 0, sets * WAYS * sizeof(struct entry));
        processor->all_instructions = 0;
        processor->owed = 0;
        memset(processor->all_misses, 0, sizeof processor->all_misses);
    }
}

static void on_iteration(unsigned int vcpu, void *data) {
    (void)vcpu;
    (void)data;
    for (int p = 0; p < PROCESSORS; p++) {
        processors[p].instructions = 0;
        memset(processors[p].misses, 0, sizeof processors[p].misses);
    }
    atomic_store(&counts, true);
}

static void on_iteration_end(unsigned int vcpu, void *data) {
    (void)vcpu;
    (void)data;
    uint64_t instructions[PROCESSORS], misses[PROCESSORS][NODES];
    atomic_store(&counts, false);
    for (int p = 0; p < PROCESSORS; p++) {
        struct processor *processor = &processors[p];
        instructions[p] = processor->instructions;
        processor->all_instructions += instructions[p];
        for (int node = 0; node < NODES; node++) {
            misses[p][node] = processor->misses[node];
            processor->all_misses[node] += misses[p][node];
        }
    }
    print("iteration", iteration++, instructions, misses);
}

static void on_run_end(unsigned int vcpu, void *data) {
    (void)vcpu;
    (void)data;
    uint64_t instructions[PROCESSORS], misses[PROCESSORS][NODES], best[PROCESSORS][NODES] = {0};
    for (int p = 0; p < PROCESSORS; p++) {
        instructions[p] = processors[p].all_instructions;
        memcpy(misses[p], processors[p].all_misses, sizeof misses[p]);
    }
    for (uint64_t frame = 0; frame < frames; frame++) {
        uint64_t least = UINT64_MAX;
        int home = 0;
        for (int node = 0; node < NODES; node++) {
            uint64_t cost = 0;
            for (int p = 0; p < PROCESSORS; p++) {
                cost += touched[frame][p] * latency[hops[p / PER_NODE][node]];
            }
            if (cost < least) {
                least = cost;
                home = node;
            }
        }
        for (int p = 0; p < PROCESSORS; p++) {
            best[p][home] += touched[frame][p];
        }
    }
    print("all", iteration, instructions, misses);
    print("best", iteration, instructions, best);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    static const struct {
        char word[5];
        vcpu_udata_cb_t callback;
    } marks[] = {{"BRUN", on_run}, {"BITR", on_iteration}, {"EITR", on_iteration_end}, {"ERUN", on_run_end}};
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(tb);
    if (count == 0 || qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)) >> 63) {
        return;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)count);
    intptr_t node = -1;
    for (size_t index = 0; index < count; index++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, index);
        const unsigned char *code = qemu_plugin_insn_data(insn);
        bool is_mark = qemu_plugin_insn_size(insn) == 7 && memcmp(code, "\x0f\x1f\x80", 3) == 0;
        if (node >= 0) {
            qemu_plugin_register_vcpu_mem_cb(insn, on_calibration, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                             (void *)node);
        }
        node = is_mark && memcmp(code + 3, "NOD", 3) == 0 ? code[6] - '0' : -1;
        for (size_t mark = 0; is_mark && mark < sizeof marks / sizeof marks[0]; mark++) {
            if (memcmp(code + 3, marks[mark].word, 4) == 0) {
                qemu_plugin_register_vcpu_insn_exec_cb(insn, marks[mark].callback, QEMU_PLUGIN_CB_NO_REGS, NULL);
            }
        }
        qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
    }
}

static void on_exit_of_machine(qemu_plugin_id_t id, void *data) {
    (void)id;
    (void)data;
    fprintf(file, "%d,calibration,0,%" PRIu64 ",%" PRIu64 "\n", run, calibrated, misplaced);
    fclose(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count,
                                                               char **arguments) {
    (void)info;
    for (int index = 0; index < count; index++) {
        if (strncmp(arguments[index], "out=", 4) == 0) {
            out = strdup(arguments[index] + 4);
        } else if (strncmp(arguments[index], "nodemb=", 7) == 0) {
            node_bytes = strtoull(arguments[index] + 7, NULL, 10) << 20;
        } else if (strncmp(arguments[index], "cachekb=", 8) == 0) {
            sets = (strtoull(arguments[index] + 8, NULL, 10) << 10) / WAYS >> LINE_SHIFT;
        } else if (strncmp(arguments[index], "slow=", 5) == 0) {
            slow = strtoull(arguments[index] + 5, NULL, 10);
        } else {
            fprintf(stderr, "oracle: unknown argument %s; out=FILE,nodemb=M,cachekb=K,slow=S\n", arguments[index]);
            return -1;
        }
    }
    if (node_bytes == 0 || sets == 0) {
        fprintf(stderr, "oracle: nodemb=M is needed, and a cache\n");
        return -1;
    }
    frames = 2 * NODES * node_bytes >> PAGE_SHIFT;
    writes = calloc(2 * NODES * node_bytes >> LINE_SHIFT, sizeof writes[0]);
    touched = calloc(frames, sizeof touched[0]);
    for (int p = 0; p < PROCESSORS; p++) {
        processors[p].cache = calloc(sets * WAYS, sizeof(struct entry));
    }
    file = fopen(out, "w");
    if (!file || !writes || !touched || !processors[PROCESSORS - 1].cache) {
        perror("oracle: no memory, or the file cannot be written");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_of_machine, NULL);
    return 0;
}
