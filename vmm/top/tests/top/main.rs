//! `stile top`: frames and keys go in, a screen and orders come out. Most of it without a terminal.

mod figures;
mod keys;
mod screen;
mod terminal;
