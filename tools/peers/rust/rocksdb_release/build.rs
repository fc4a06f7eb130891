// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! Links with the library in the folder that tools/peers/build names.

fn main() {
    println!("cargo:rerun-if-env-changed=PEER_ROCKSDB_LIBRARY");
    if let Ok(folder) = std::env::var("PEER_ROCKSDB_LIBRARY") {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
