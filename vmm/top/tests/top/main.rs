//! `stile top` without a terminal: frames and keys go in, a screen and orders come out.

mod figures;
mod keys;
mod screen;
