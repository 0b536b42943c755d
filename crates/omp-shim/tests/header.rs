//! `include/asat.h` is made of `src/abi/asat.rs`, and compiles.
//!
//! `NANOS_WRITE_HEADER=1 cargo test -p omp-shim --test header` writes it anew.

use std::path::Path;
use std::process::Command;

/// The C declaration of each entry point of the file, with its words.
fn header(source: &str) -> String {
    let mut text =
        "/* Automatic self-allocating threads: see src/abi/asat.rs, of which this file is \
                    made. */\n#ifndef NANOS_ASAT_H\n#define NANOS_ASAT_H\n\n#ifdef \
                    __cplusplus\nextern \"C\" {\n#endif\n"
            .to_owned();
    let mut words: Vec<&str> = Vec::new();
    for line in source.lines() {
        if let Some(word) = line.strip_prefix("///") {
            words.push(word.trim());
        } else if let Some((_, function)) = line.split_once("extern \"C\" fn ") {
            text.push_str(&format!("\n/* {} */\n", words.join("\n   ")));
            text.push_str(&declaration(function));
            words.clear();
        }
    }
    text + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
}

/// `name(argument: type) -> type {` as C has it.
fn declaration(function: &str) -> String {
    let (name, rest) = function.split_once('(').expect("a function's arguments");
    let (arguments, result) = rest.split_once(") -> ").expect("a function's result");
    let arguments: Vec<String> = arguments
        .split(", ")
        .map(|argument| {
            let (name, rust) = argument.split_once(": ").expect("an argument's type");
            let c = c_type(rust);
            format!("{c}{}{name}", if c.ends_with('*') { "" } else { " " })
        })
        .collect();
    format!("{} {name}({});\n", c_type(result.trim_end_matches(" {")), arguments.join(", "))
}

fn c_type(rust: &str) -> &'static str {
    match rust {
        "c_int" => "int",
        "*const c_int" => "const int *",
        other => panic!("{other}: say what that is in C"),
    }
}

#[test]
fn the_header_is_what_the_source_says_and_compiles_as_c_and_cxx() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("include/asat.h");
    let expected = header(include_str!("../src/abi/asat.rs"));
    if std::env::var_os("NANOS_WRITE_HEADER").is_some() {
        std::fs::write(&path, &expected).expect("the header can be written");
    }
    let found = std::fs::read_to_string(&path).expect("the header");
    assert_eq!(found, expected, "write it anew: see the head of this file");
    for (language, compiler) in [("c", "gcc"), ("c++", "g++")] {
        let mut compile = Command::new(compiler);
        compile.args(["-x", language, "-Wall", "-Werror", "-fsyntax-only"]).arg(&path);
        match compile.status() {
            Ok(status) => assert!(status.success(), "{language}"),
            Err(_) => platform::skip!("no {compiler} here"),
        }
    }
}
