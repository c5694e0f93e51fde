//! `sqlx::migrate!` embeds the migrations at compile time; without this, cargo would not see that one was added.

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
