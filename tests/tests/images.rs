//! VMs that cannot be made: each is refused with its reason, before any of its code runs.

use std::sync::Arc;
use stile_abi::{CMDLINE_MAX, IMAGE_MIN_GPA, MEMORY_MAX};
use stile_machine::unikernel::CreateError;
use stile_machine::unikernel::image::ImageError;
use stile_machine::unikernel::image::forge::{Piece, code, elf};
use stile_machine::unikernel::layout::{LayoutError, PAGE};
use stile_machine::vm::MakeError;
use stile_tests::{Carrier, Recipe, require_kvm};

const READ: u32 = 4;
const EXECUTE: u32 = 1;

/// Tries to make the VM in each mechanism's domain, and checks that none of its vCPUs stays there.
fn refused(recipe: &Recipe, expected: impl Fn(&CreateError) -> bool) {
    let kvm = require_kvm!();
    for carrier in Carrier::mechanisms() {
        let domain = carrier.domain();
        match recipe.try_create(&kvm, &domain) {
            Ok(_) => panic!("{carrier}: accepted"),
            Err(error) => assert!(expected(&error), "{carrier}: {error} ({error:?})"),
        }
        assert_eq!(Arc::strong_count(&domain), 1, "{carrier}: a vCPU stayed in the domain");
    }
}

fn refused_image(file: Vec<u8>, expected: impl Fn(&ImageError) -> bool) {
    refused(&Recipe::file(file), |error| matches!(error, CreateError::Image(error) if expected(error)));
}

fn text(start: u64) -> Piece {
    Piece { start, bytes: vec![0x90; 16], size: 16, flags: READ | EXECUTE }
}

#[test]
fn a_truncated_image_is_refused() {
    let whole = code(&[0x90; 16]);
    refused_image(whole[..whole.len() - 1].to_vec(), |e| matches!(e, ImageError::Truncated { .. }));
    refused_image(whole[..40].to_vec(), |e| matches!(e, ImageError::NotElf(_)));
    refused_image(Vec::new(), |e| matches!(e, ImageError::NotElf(_)));
}

#[test]
fn an_image_for_another_machine_is_refused() {
    let mut file = code(&[0x90]);
    // e_machine of AArch64.
    file[18] = 183;
    refused_image(file, |e| *e == ImageError::Machine(183));
}

#[test]
fn overlapping_segments_are_refused() {
    let file = elf(IMAGE_MIN_GPA, &[text(IMAGE_MIN_GPA), text(IMAGE_MIN_GPA + 8)]);
    refused_image(file, |e| matches!(e, ImageError::Overlap { .. }));
}

#[test]
fn segments_out_of_range_are_refused() {
    for start in [0, IMAGE_MIN_GPA - PAGE, MEMORY_MAX, u64::MAX - 15] {
        refused_image(elf(start, &[text(start)]), |e| matches!(e, ImageError::OutOfRange { .. }));
    }
}

#[test]
fn an_image_without_an_entry_point_is_refused() {
    refused_image(elf(0, &[text(IMAGE_MIN_GPA)]), |e| *e == ImageError::NoEntry(0));
}

#[test]
fn an_image_larger_than_memory_is_refused() {
    let file = elf(IMAGE_MIN_GPA, &[Piece { size: 64 << 20, ..text(IMAGE_MIN_GPA) }]);
    let too_small = |e: &CreateError| matches!(e, CreateError::Layout(LayoutError::TooSmall { .. }));
    refused(&Recipe::file(file), too_small);
}

#[test]
fn numbers_of_vcpus_that_kvm_cannot_have_are_refused() {
    // The configuration of a kernel allows 4096 at most (CONFIG_KVM_MAX_NR_VCPUS).
    for vcpus in [0, 5000, u32::MAX] {
        let names = |e: &CreateError| match e {
            CreateError::Machine(MakeError::Vcpus { asked, most }) => *asked == vcpus && *most > 0,
            _ => false,
        };
        refused(&Recipe::builtin("hello").vcpus(vcpus), names);
    }
}

#[test]
fn memory_that_is_no_memory_or_too_much_is_refused() {
    let layout = |recipe: Recipe, expected: fn(&LayoutError) -> bool| {
        refused(&recipe, |e| matches!(e, CreateError::Layout(e) if expected(e)));
    };
    for memory in [0, PAGE, IMAGE_MIN_GPA] {
        layout(Recipe::builtin("hello").memory(memory), |e| matches!(e, LayoutError::TooSmall { .. }));
    }
    for memory in [MEMORY_MAX + PAGE, !(PAGE - 1)] {
        layout(Recipe::builtin("hello").memory(memory), |e| matches!(e, LayoutError::TooLarge { .. }));
    }
}

#[test]
fn a_command_line_that_does_not_fit_is_refused() {
    let long = Recipe::builtin("hello").cmdline(&"x".repeat(CMDLINE_MAX + 1));
    refused(&long, |e| e.to_string().contains(&(CMDLINE_MAX + 1).to_string()));
}
