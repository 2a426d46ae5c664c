//! The ways into the program that are not calls: its start, the start of other vCPUs, and interrupts.
//!
//! The monitor enters in 64-bit mode, with 4 GiB mapped one to one by page tables at 0x9000 and a descriptor table at
//! 0x500 (code 0x10, data 0x18). Handlers are assembly alone, since compiled code may use registers that they would
//! have to save. They count interrupts for each vCPU, keep the order of the last eight, and end them.

use core::arch::global_asm;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Most vCPUs.
pub(crate) const CPUS: usize = 8;
/// Size of a stack; a vCPU's number follows from its stack's address.
const STACK: usize = 1 << 14;

/// Stacks, one behind the other.
#[repr(C, align(16384))]
struct Stacks([[u8; STACK]; CPUS]);

/// Stacks of all vCPUs.
#[unsafe(no_mangle)]
static mut RING0_STACKS: Stacks = Stacks([[0; STACK]; CPUS]);
/// Interrupts and exceptions taken, by vCPU and vector.
#[unsafe(no_mangle)]
pub(crate) static RING0_COUNTS: [[AtomicU32; 256]; CPUS] = [const { [const { AtomicU32::new(0) }; 256] }; CPUS];
/// The last eight vectors of interrupts of each vCPU; the latest is in the lowest byte.
#[unsafe(no_mangle)]
pub(crate) static RING0_ORDER: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];
/// Set: handlers do not end interrupts.
#[unsafe(no_mangle)]
pub(crate) static RING0_MANUAL: [AtomicU8; CPUS] = [const { AtomicU8::new(0) }; CPUS];
/// Where a general-protection exception goes on; 0: it is fatal.
#[unsafe(no_mangle)]
pub(crate) static RING0_FIXUP: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];
/// The words by which the monitor says that an interrupt ends without a write.
#[unsafe(no_mangle)]
pub(crate) static RING0_PV: [AtomicU32; CPUS] = [const { AtomicU32::new(0) }; CPUS];
/// Interrupts that ended so.
#[unsafe(no_mangle)]
pub(crate) static RING0_SKIPPED: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];
/// Number of the next vCPU that starts.
#[unsafe(no_mangle)]
pub(crate) static RING0_NEXT: AtomicU32 = AtomicU32::new(1);

/// Address of the first stack.
pub(crate) fn stacks() -> u64 {
    &raw const RING0_STACKS as u64
}

unsafe extern "C" {
    /// The first of 256 handlers, 16 bytes each.
    pub(crate) static ring0_vectors: u8;
    /// The code with which other vCPUs start, and its end.
    pub(crate) static ring0_ap_begin: u8;
    /// See [`ring0_ap_begin`].
    pub(crate) static ring0_ap_end: u8;
}

/// Where the code with which other vCPUs start is copied to; a page below 1 MiB that nothing else uses.
pub(crate) const TRAMPOLINE: u64 = 0x8000;

global_asm!(
    ".pushsection .text._start,\"ax\",@progbits",
    ".globl _start",
    "_start:",
    "cli",
    "lea rsp, [rip + RING0_STACKS + {stack}]",
    "mov rax, cr4",
    "or rax, 0x600", // SSE
    "mov cr4, rax",
    "mov rax, cr0",
    "and rax, ~4", // no emulation of the FPU
    "or rax, 2",
    "mov cr0, rax",
    "xor ebp, ebp",
    "call ring0_main",
    "2: hlt",
    "jmp 2b",
    ".popsection",
    stack = const STACK,
);

global_asm!(
    ".pushsection .text.ring0,\"ax\",@progbits",
    ".balign 16",
    ".globl ring0_vectors",
    "ring0_vectors:",
    ".set vector, 0",
    ".rept 256",
    ".balign 16",
    // Exceptions with an error code.
    ".if !(vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || vector == 29 || vector == 30)",
    "push 0",
    ".endif",
    "push vector",
    "jmp ring0_common",
    ".set vector, vector + 1",
    ".endr",
    "ring0_common:",
    "push rax",
    "push rcx",
    "push rdx",
    "push rbx",
    "mov rax, [rsp + 32]",
    "lea rcx, [rip + RING0_STACKS]",
    "mov rbx, rsp",
    "sub rbx, rcx",
    "shr rbx, 14",
    "mov rdx, rbx",
    "shl rdx, 10",
    "lea rcx, [rip + RING0_COUNTS]",
    "add rcx, rdx",
    "lock inc dword ptr [rcx + rax * 4]",
    "cmp rax, 32",
    "jb 3f",
    "lea rdx, [rip + RING0_ORDER]",
    "mov rcx, [rdx + rbx * 8]",
    "shl rcx, 8",
    "or rcx, rax",
    "mov [rdx + rbx * 8], rcx",
    "lea rdx, [rip + RING0_MANUAL]",
    "cmp byte ptr [rdx + rbx], 0",
    "jne 5f",
    "lea rdx, [rip + RING0_PV]",
    "btr dword ptr [rdx + rbx * 4], 0",
    "jc 4f",
    "mov ecx, 0x80b",
    "xor eax, eax",
    "xor edx, edx",
    "wrmsr",
    "jmp 5f",
    "4:",
    "lea rdx, [rip + RING0_SKIPPED]",
    "inc qword ptr [rdx + rbx * 8]",
    "jmp 5f",
    "3:",
    "cmp rax, 2",
    "je 5f",
    "cmp rax, 13",
    "jne 6f",
    "lea rdx, [rip + RING0_FIXUP]",
    "mov rcx, [rdx + rbx * 8]",
    "test rcx, rcx",
    "jz 6f",
    "mov [rsp + 48], rcx",
    "5:",
    "pop rbx",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "add rsp, 16",
    "iretq",
    "6:",
    "mov rdi, rax",
    "mov rsi, [rsp + 48]",
    "and rsp, -16",
    "call ring0_fatal",
    ".popsection",
);

// Real mode, at TRAMPOLINE: the segment of the code is that page, the others are zero.
global_asm!(
    ".pushsection .text.ring0_ap,\"ax\",@progbits",
    ".globl ring0_ap_begin",
    ".globl ring0_ap_end",
    ".code16",
    "ring0_ap_begin:",
    "cli",
    ".byte 0x0f, 0x01, 0x16", // lgdt from an absolute address
    ".word {base} + (7f - ring0_ap_begin)",
    "mov eax, 0x620", // PAE and SSE
    "mov cr4, eax",
    "mov eax, 0x9000",
    "mov cr3, eax",
    "mov ecx, 0xc0000080",
    "rdmsr",
    "or eax, 0x100",
    "wrmsr",
    "mov eax, 0x80000033",
    "mov cr0, eax",
    ".byte 0x66, 0xea", // a far jump to 64-bit code
    ".long {base} + (8f - ring0_ap_begin)",
    ".word 0x10",
    "7:",
    ".word 39",
    ".long 0x500",
    ".code64",
    "8:",
    "mov eax, 0x18",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    "mov edx, offset RING0_NEXT",
    "mov eax, 1",
    "lock xadd [rdx], eax",
    "mov edi, eax",
    "inc eax",
    "shl rax, 14",
    "mov esp, offset RING0_STACKS",
    "add rsp, rax",
    "xor ebp, ebp",
    "mov eax, offset ring0_ap_main",
    "call rax",
    "2: hlt",
    "jmp 2b",
    "ring0_ap_end:",
    ".popsection",
    base = const TRAMPOLINE,
);
