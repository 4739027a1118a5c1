#![doc = include_str!("README.md")]

mod child;
mod limits;
pub mod sandbox;
mod spawn;

pub use child::{Child, ChildExit, Process};
pub use limits::{ChildLimits, lower_memory_limit};
pub use spawn::{InheritedFile, confined_command, spawn, spawn_worker};
