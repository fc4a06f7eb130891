// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Builds librocksdb.a of the checkout that this crate is in, and the bindings of
// its header. Needs CMake, a C++ compiler, Python 3, and Varve's libraries.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) {
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

fn build(source: &Path, tree: &Path) {
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source).arg("-B").arg(tree).args([
        "-DCMAKE_BUILD_TYPE=Release",
        // As in Varve's own builds.
        "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG",
        "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
        "-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF",
        "-DVARVE_BUILD_COMPAT=ON",
        "-DVARVE_BUILD_SHARED=OFF",
        "-DVARVE_BUILD_TESTS=OFF",
        "-DVARVE_BUILD_TOOLS=OFF",
        // It writes the names of the libraries that Varve uses.
        "-DVARVE_INSTALL=ON",
        "-DVARVE_ROCKSDB_C_VERSION=11",
    ]);
    run(&mut configure);
    let mut build = Command::new("cmake");
    build
        .arg("--build")
        .arg(tree)
        .args(["--target", "varve_rocksdb_static", "--parallel"])
        .arg(env::var("NUM_JOBS").unwrap());
    run(&mut build);
}

// Links the archive and the libraries that pkg-config would name.
fn link(tree: &Path) {
    println!(
        "cargo:rustc-link-search=native={}",
        tree.join("rocksdb").display()
    );
    println!("cargo:rustc-link-lib=static=rocksdb");
    let file = tree.join("packaging/files/varve-static.pc");
    let text = fs::read_to_string(&file).expect("varve-static.pc");
    let libs = text
        .lines()
        .find_map(|line| line.strip_prefix("Libs:"))
        .expect("varve-static.pc has no Libs");
    for word in libs.split_whitespace() {
        if let Some(name) = word.strip_prefix("-l") {
            if name != "varve" {
                println!("cargo:rustc-link-lib=dylib={name}");
            }
        } else if let Some(folder) = word.strip_prefix("-L") {
            if !folder.contains("${") {
                println!("cargo:rustc-link-search=native={folder}");
            }
        }
    }
}

fn main() {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap());
    let source = manifest.ancestors().nth(4).unwrap();
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let tree = out.join("build");
    for part in [
        "CMakeLists.txt",
        "include",
        "util",
        "env",
        "monitoring",
        "table",
        "db",
        "catalog",
        "compat",
        "packaging",
    ] {
        println!("cargo:rerun-if-changed={}", source.join(part).display());
    }
    build(source, &tree);
    link(&tree);
    bindgen::Builder::default()
        .header(
            tree.join("compat_rocksdb/rocksdb/c.h")
                .display()
                .to_string(),
        )
        .allowlist_item("rocksdb_.*")
        .derive_debug(false)
        .ctypes_prefix("libc")
        .size_t_is_usize(true)
        .layout_tests(false)
        .generate()
        .expect("bindings of rocksdb/c.h")
        .write_to_file(out.join("bindings.rs"))
        .expect("bindings.rs");
    println!("cargo:out_dir={}", out.display());
}
