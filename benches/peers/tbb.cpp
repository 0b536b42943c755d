// The oneTBB side of the benches.
//
// Every entry takes three words and returns one. Bodies are C functions of the bench; the same ones run on every engine.

#include <cstdint>
#include <tbb/tbb.h>

using body_t = void (*)(uint32_t);

// Two threads, as the other engines have.
static tbb::global_control two_threads(tbb::global_control::max_allowed_parallelism, 2);

// A region of `parts` parts.
extern "C" uintptr_t region(uintptr_t body, uintptr_t parts, uintptr_t)
{
    auto run = reinterpret_cast<body_t>(body);
    tbb::parallel_for(
        tbb::blocked_range<uint32_t>(0, static_cast<uint32_t>(parts), 1),
        [run](const tbb::blocked_range<uint32_t>& range) {
            for (uint32_t part = range.begin(); part != range.end(); part++)
                run(part);
        },
        tbb::static_partitioner());
    return 0;
}

// `outer` * 1000 + `inner` parts.
extern "C" uintptr_t nested(uintptr_t body, uintptr_t shape, uintptr_t)
{
    auto run = reinterpret_cast<body_t>(body);
    uint32_t outer = shape / 1000, inner = shape % 1000;
    tbb::parallel_for(uint32_t(0), outer, [=](uint32_t group) {
        tbb::parallel_for(uint32_t(0), inner, [=](uint32_t part) { run(group * inner + part); });
    });
    return 0;
}

// Two parts, `count` inner regions of one part each.
extern "C" uintptr_t inner_of_one(uintptr_t body, uintptr_t count, uintptr_t)
{
    auto run = reinterpret_cast<body_t>(body);
    tbb::parallel_for(uint32_t(0), uint32_t(2), [=](uint32_t group) {
        for (uintptr_t n = 0; n < count; n++)
            tbb::parallel_for(uint32_t(0), uint32_t(1), [=](uint32_t) { run(group); });
    });
    return 0;
}

// A region in an arena of `size` threads.
extern "C" uintptr_t sized(uintptr_t body, uintptr_t size, uintptr_t)
{
    static tbb::task_arena arenas[] = {tbb::task_arena(1), tbb::task_arena(1), tbb::task_arena(2)};
    arenas[size > 2 ? 2 : size].execute([=] { region(body, size, 0); });
    return 0;
}

static uintptr_t fib(uintptr_t n)
{
    if (n < 2)
        return n;
    uintptr_t a, b;
    tbb::parallel_invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
    return a + b;
}

extern "C" uintptr_t fibonacci(uintptr_t n, uintptr_t, uintptr_t)
{
    return fib(n);
}

using expand_t = uint32_t (*)(uint64_t, uint32_t);
using child_t = uint64_t (*)(uint64_t, uint32_t);

static void node(tbb::task_group& group, uint64_t state, uint32_t depth, expand_t expand, child_t child)
{
    uint32_t children = expand(state, depth);
    for (uint32_t i = 0; i < children; i++) {
        uint64_t below = child(state, i);
        group.run([=, &group] { node(group, below, depth + 1, expand, child); });
    }
}

// Visits the tree below `root`, a task for each node.
extern "C" uintptr_t tree(uintptr_t root, uintptr_t expand, uintptr_t child)
{
    tbb::task_group group;
    node(group, root, 0, reinterpret_cast<expand_t>(expand), reinterpret_cast<child_t>(child));
    group.wait();
    return 0;
}

// run(0), run(1), ... in phases: `ends` has where each phase ends.
extern "C" uintptr_t phased(uintptr_t ends, uintptr_t phases, uintptr_t run)
{
    auto end = reinterpret_cast<const uint32_t*>(ends);
    auto body = reinterpret_cast<body_t>(run);
    uint32_t begin = 0;
    for (uintptr_t phase = 0; phase < phases; phase++) {
        tbb::parallel_for(begin, end[phase], [=](uint32_t n) { body(n); });
        begin = end[phase];
    }
    return 0;
}

// `count` tasks by one producer.
extern "C" uintptr_t produce(uintptr_t count, uintptr_t run, uintptr_t)
{
    auto body = reinterpret_cast<body_t>(run);
    tbb::task_group group;
    for (uint32_t n = 0; n < count; n++)
        group.run([=] { body(n); });
    group.wait();
    return 0;
}

// A loop of `length` iterations by the partitioner of this number: auto, simple, static, affinity.
extern "C" uintptr_t loop(uintptr_t body, uintptr_t length, uintptr_t partitioner)
{
    auto run = reinterpret_cast<body_t>(body);
    auto each = [run](const tbb::blocked_range<uint32_t>& range) {
        for (uint32_t i = range.begin(); i != range.end(); i++)
            run(i);
    };
    auto all = [&](size_t grain) { return tbb::blocked_range<uint32_t>(0, static_cast<uint32_t>(length), grain); };
    static tbb::affinity_partitioner replayed;
    switch (partitioner) {
    case 0:
        tbb::parallel_for(all(1), each, tbb::auto_partitioner());
        break;
    case 1:
        tbb::parallel_for(all(16), each, tbb::simple_partitioner());
        break;
    case 2:
        tbb::parallel_for(all(1), each, tbb::static_partitioner());
        break;
    default:
        tbb::parallel_for(all(1), each, replayed);
    }
    return 0;
}
