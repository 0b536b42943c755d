//! Places.

use crate::frame;
use crate::query::int;
use crate::query::places;
use std::ffi::c_int;

/// Places of the process.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_get_num_places() -> c_int {
    int(places::list().len())
}

/// The processors of place `number`, ascending; none for a number that does not exist.
pub(in crate::abi) fn processors_of(number: c_int) -> impl Iterator<Item = u32> {
    let place = usize::try_from(number).ok().and_then(|number| places::list().get(number));
    place.into_iter().flat_map(|place| place.iter().map(|cpu| cpu.0))
}

/// Processors of a place.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_get_place_num_procs(number: c_int) -> c_int {
    int(processors_of(number).count())
}

/// The processors of a place.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_place_proc_ids(number: c_int, ids: *mut c_int) {
    for (index, cpu) in processors_of(number).enumerate() {
        // SAFETY: the program's array, as long as `omp_get_place_num_procs` said.
        unsafe { ids.add(index).write(int(cpu)) };
    }
}

/// The caller's place, or -1.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_get_place_num() -> c_int {
    places::place_partition(frame::current()).map_or(-1, |at| int(at.place))
}

/// Places of the caller's partition.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_get_partition_num_places() -> c_int {
    int(partition().len())
}

/// The places of the caller's partition.
pub(in crate::abi) fn partition() -> std::ops::Range<usize> {
    places::place_partition(frame::current()).map_or(0..0, |at| at.partition)
}

/// The numbers of the places of the caller's partition.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_partition_place_nums(numbers: *mut c_int) {
    for (index, place) in partition().enumerate() {
        // SAFETY: the program's array, as long as `omp_get_partition_num_places` said.
        unsafe { numbers.add(index).write(int(place)) };
    }
}
