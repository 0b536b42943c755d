//! The headers of `include/` are made of the files of `src/abi/` that they declare, and compile.
//!
//! `NANOS_WRITE_HEADER=1 cargo test -p omp-shim --test header` writes them anew.

use std::path::Path;
use std::process::Command;

/// A header: its name, what its first line says, its file of `src/abi/`, and what it includes.
const HEADERS: [(&str, &str, &str, &str); 2] = [
    ("asat", "Automatic self-allocating threads", include_str!("../src/abi/asat.rs"), ""),
    (
        "upm",
        "User-level page migration",
        include_str!("../src/abi/upm.rs"),
        "#include <stddef.h>\n\n",
    ),
];

/// The C declaration of each entry point and variable of the file, with its words.
fn header((name, title, source, includes): (&str, &str, &str, &str)) -> String {
    let guard = format!("NANOS_{}_H", name.to_uppercase());
    let mut text = format!(
        "/* {title}: see src/abi/{name}.rs, of which this file is made. */\n#ifndef {guard}\n\
         #define {guard}\n\n{includes}#ifdef __cplusplus\nextern \"C\" {{\n#endif\n"
    );
    let mut words: Vec<&str> = Vec::new();
    // An entry point may take several lines, up to its brace.
    let mut open = String::new();
    for line in source.lines() {
        if let Some(word) = line.strip_prefix("///") {
            words.push(word.trim());
            continue;
        }
        if open.is_empty() && line.contains("extern \"C\" fn ") || !open.is_empty() {
            open.push_str(line.trim_start());
            open.push_str(if line.ends_with(',') { " " } else { "" });
        }
        let declared = if let Some((_, function)) = open.split_once("extern \"C\" fn ") {
            open.ends_with('{').then(|| declaration(function))
        } else {
            line.strip_prefix("static ").map(|variable| {
                let (name, rest) = variable.split_once(": ").expect("a variable's type");
                let rust = rest.split_once(" = ").expect("a variable's value").0;
                format!("extern {} {name};\n", c_type(rust))
            })
        };
        if let Some(declared) = declared {
            text.push_str(&format!("\n/* {} */\n{declared}", words.join("\n   ")));
            words.clear();
            open.clear();
        }
        if line.is_empty() {
            words.clear();
        }
    }
    text + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
}

/// `name(argument: type) -> type {` as C has it.
fn declaration(function: &str) -> String {
    let (name, rest) = function.split_once('(').expect("a function's arguments");
    let (arguments, result) = rest.rsplit_once(')').expect("the end of its arguments");
    let arguments: Vec<String> = arguments
        .split(", ")
        .filter(|argument| !argument.is_empty())
        .map(|argument| {
            let (name, rust) = argument.split_once(": ").expect("an argument's type");
            let c = c_type(rust);
            format!("{c}{}{name}", if c.ends_with('*') { "" } else { " " })
        })
        .collect();
    let result = result.trim_end_matches(" {").strip_prefix(" -> ").map_or("void", c_type);
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    let line = format!("{result} {name}({arguments});\n");
    if line.len() <= 100 { line } else { line.replace("(", "(\n    ") }
}

fn c_type(rust: &str) -> &'static str {
    match rust {
        "c_int" | "AtomicI32" => "int",
        "usize" => "size_t",
        "*const c_int" => "const int *",
        "*const c_void" => "const void *",
        other => panic!("{other}: say what that is in C"),
    }
}

#[test]
fn each_header_is_what_the_source_says_and_compiles_as_c_and_cxx() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for of in HEADERS {
        let path = folder.join(format!("include/{}.h", of.0));
        let expected = header(of);
        if std::env::var_os("NANOS_WRITE_HEADER").is_some() {
            std::fs::write(&path, &expected).expect("the header can be written");
        }
        let found = std::fs::read_to_string(&path).expect("the header");
        assert_eq!(found, expected, "write it anew: see the head of this file");
        for (language, compiler) in [("c", "gcc"), ("c++", "g++")] {
            let mut compile = Command::new(compiler);
            compile.args(["-x", language, "-Wall", "-Werror", "-fsyntax-only"]).arg(&path);
            match compile.status() {
                Ok(status) => assert!(status.success(), "{}: {language}", of.0),
                Err(_) => platform::skip!("no {compiler} here"),
            }
        }
    }
}
