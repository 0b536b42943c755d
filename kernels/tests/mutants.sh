#!/bin/sh
# That the papers' programs and CG notice wrong work: each mutant is one of them with a part of its
# work left out, or wrong, and must end with exit code 1 and words about a failed verification.
#
#     CC=gcc FLAGS='...' mutants.sh FOLDER SHARED.a
#
# FOLDER takes what is built. An edit that changes nothing is an error: the source has changed.
set -eu
folder=$1 shared=$2
mkdir -p "$folder"

# mutant NAME PROGRAM SED-SCRIPT
mutant() {
    sed "$3" "c/$2.c" > "$folder/$1.c"
    if cmp -s "c/$2.c" "$folder/$1.c"; then
        echo "mutant $1: the edit changes nothing" >&2
        exit 1
    fi
    # shellcheck disable=SC2086 # several flags
    ${CC:-gcc} $FLAGS -w -o "$folder/$1" "$folder/$1.c" "$shared" -lm
    code=0
    said=$(OMP_NUM_THREADS=4 "$folder/$1" --class S --quiet 2>&1) || code=$?
    case "$code $said" in
        "1 "*"verification failed"*) ;;
        *) echo "mutant $1: exit code $code, $said" >&2; exit 1 ;;
    esac
    count=$((count + 1))
}
count=0

mutant swim_nothing papers/swim 's/step < class->steps/step < 0/'
mutant swim_derived_once papers/swim 's/^ *derive(&water);/            if (step == 0)\n&/'
mutant swim_half_a_step papers/swim '/^static void advance(/,/^}/{
    s/^    const double turn/    static int calls;\n    const int end = ++calls == 100 ? n \/ 2 : n;\n&/
    s/j <= n; j++/j <= end; j++/
}'
mutant swim_one_row papers/swim '/^static void advance(/,/^}/{
    s/^    const double turn/    static int calls;\n    const int out = ++calls == 100 ? n \/ 2 : 0;\n&/
    s/^        advance_row.*/        if (j != out)\n&/
}'
mutant swim_filter_once papers/swim 's/^ *filter(&water.*/            if (step != 100)\n&/'

mutant tomcatv_not_a_number papers/tomcatv 's/^        report_stop.*/&\n        for (int i = 0; i < class->n; i++)\n            mesh.x[5 * class->n + i] = NAN;/'
mutant tomcatv_half_the_corrections papers/tomcatv '/^static void correct/,/^}/{
    s/^    const int n.*/&\n    static int calls;\n    const int end = calls++ % 3 == 1 \&\& calls < 57 ? n \/ 2 : n - 1;/
    s/j < n - 1; j++/j < end; j++/
}'
mutant tomcatv_one_iteration papers/tomcatv '/^static void correct/,/^}/{
    s/^    const int n.*/&\n    static int calls;\n    const int end = ++calls == 30 ? n \/ 2 : n - 1;/
    s/j < n - 1; j++/j < end; j++/
}'
mutant tomcatv_one_line papers/tomcatv '/^static void correct/,/^}/{
    s/^    const int n.*/&\n    static int calls;\n    const int out = ++calls == 30 ? n \/ 2 : 0;/
    s/^        for (int i = 1.*/        if (j != out)\n&/
}'

for section in to_corners to_cells; do
    for quantity in DENSITY MOMENTUM_X MOMENTUM_Y ENERGY; do
        mutant "hydro2d_${section}_$quantity" papers/hydro2d \
            "s/^ *$section($quantity, members);/        { static int calls; if (++calls != 50) $section($quantity, members); }/"
    done
done
mutant hydro2d_not_a_number papers/hydro2d 's/^        report_stop.*/&\n        cells.quantity[ENERGY][5 * row + 5] = NAN;/'

mutant epd_one_thread papers/epd 's/num_threads(request(step, steps, most))/num_threads(1)/'
mutant epd_all_threads papers/epd 's/num_threads(request(step, steps, most))/num_threads(most)/'

mutant apsi_one_measure papers/apsi 's/^ *measure(&air\[f\]);/                if (step != 7)\n&/'
mutant apsi_half_a_measure papers/apsi '/^static void measure/,/^}/{
    s/^    double energy = 0;/&\n    static int calls;\n    const int end = ++calls == 7 ? air->nz \/ 2 : air->nz;/
    s/z < air->nz; z++/z < end; z++/
}'

mutant cg_one_iteration cg '/^static double iterate/,/^}/{
    s/^    double scale.*/&\n    static int calls;\n    const int end = ++calls == 4 ? a->n \/ 2 : a->n;/
    s/^        w->x/        if (i < end)\n    &/
}'
mutant cg_one_solution cg 's/^    for (int step = 0; step < CG_STEPS; step++) {/    static int calls;\n    const int end = ++calls == 4 ? 2 : CG_STEPS;\n    for (int step = 0; step < end; step++) {/'

echo "$count mutants fail as they must"
