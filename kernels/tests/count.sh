#!/bin/sh
# Prints how many millions of instructions the timed section of a kernel takes that one thread runs:
#
#     count.sh PROGRAM [ARGUMENT...]
#
# A kernel reads the clock as its report begins and at both ends of the timed section. Callgrind
# writes what it has counted down at each of these calls: the third part is the timed section.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! OMP_NUM_THREADS=1 valgrind --quiet --tool=callgrind --callgrind-out-file="$folder/part" \
    --dump-before='clock_gettime*' "$@" --repeat 1 --quiet > "$folder/said" 2>&1; then
    cat "$folder/said" >&2
    echo "$1: it failed under valgrind (3.19 cannot read clang's -g: -gdwarf-4)" >&2
    exit 1
fi
# The rest, from the timed section's end, is the fourth part or has no number.
parts=$(find "$folder" -name 'part.*' | wc -l)
if [ ! -e "$folder/part.3" ] || [ "$parts" -gt 4 ]; then
    echo "$1: it read the clock $parts times, where 3 were expected" >&2
    exit 1
fi
awk '$1 == "summary:" { printf "%.1f\n", $2 / 1e6; found = 1 } END { exit !found }' "$folder/part.3"
