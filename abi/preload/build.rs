//! Sets a build id in the library, by which `sovia ps -v` distinguishes two builds of one version.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,--build-id=sha1");
    println!("cargo:rerun-if-changed=build.rs");
}
