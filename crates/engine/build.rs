//! Nothing is built here. A build script is what Cargo asks of a package with `links`: so that one
//! program cannot hold two engines of different versions, each with threads, a registration at the
//! manager and a fault handler of its own.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
