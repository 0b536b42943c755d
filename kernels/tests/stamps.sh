#!/bin/sh
# That objects are built anew with other flags, and only then:
#
#     CC=gcc FC=gfortran stamps.sh MAKE FOLDER
set -eu
make=$1 folder=$2
built() { # with the flags $1: what make has said
    # Not what this make itself was told: its --silent would say nothing.
    MAKEFLAGS= "$make" --no-print-directory CC="$CC" FC="$FC" OUT="$folder" CFLAGS="$1" FFLAGS="$1" \
        "$folder/c/common/random.o" "$folder/fortran/common.o"
}
fail() {
    echo "objects with other flags: $1" >&2
    exit 1
}
rm -rf "$folder"
for flags in -O0 -O1 "-O1 -DWORD='a b'"; do
    case $(built "$flags") in *common/random.c*common.f90*) ;; *) fail "$flags builds nothing" ;; esac
    case $(built "$flags") in *-c*) fail "$flags builds twice" ;; esac
done
