# The hooks that a program spends its time in, for linking into the executable itself.
#
# A call into a shared library costs as much as a whole hook of this file, so norns-cc gives this
# file, assembled, to the linker beside the library. A hook here decides only one thing: that an
# access is not new, because its thread has done as much since its last synchronisation
# (record: the segment filter; detect: the cells of the granule). Everything else goes on to the
# library, with the program's return address still on the stack. The layouts are those of
# `thread::Thread`, `record::filter`, `detect::cell` and `detect::shadow`; `fast.rs` holds them to it.
#
# `norns_fast` is this thread's block: 0 when there is none or the mode needs every access, the
# block's address in record mode, one more in detect mode. The library sets it.

# Counted up with every change of what follows: a library of another layout is asked each time.
.set LAYOUT, 1

.set SEGMENT, 0
.set WORDS, 8
.set COVERED, 262152
.set EPOCH, 262232
.set DIRECTORY, 262240
.set FIRST_BLOCK, 262248
.set DEPTH, 262256
.set COMMON, 262272
.set FRAMES, 262280
.set MAX_DEPTH, 16384

.set WRITE, 0x40000000
.set PLAIN, -0x80000000

.section .tbss.norns, "awT", @nobits
.balign 8
.type norns_fast, @object
.size norns_fast, 8
norns_fast:
    .zero 8

.section .bss.norns, "aw", @nobits
# Whether the library wants to hear of anything at all.
norns_on:
    .zero 1

.section .text.norns, "ax", @progbits

# rdi: the address. Only registers that a call may change are changed.
.macro access name, library, size, write
    .p2align 5
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    movq norns_fast@gottpoff(%rip), %rax
    movq %fs:(%rax), %rax
    testb $1, %al
    jnz 3f
    testq %rax, %rax
    jz 8f

    # Record. The key of the word, then what it has of these bytes.
    .if \size > 1
    testb $(\size - 1), %dil
    jnz 9f
    .endif
    movq %rdi, %rdx
    shrq $3, %rdx
    movl %edx, %r9d
    andl $0x7fff, %r9d
    addq %rdx, %rdx
    andq $-65536, %rdx
    orq SEGMENT(%rax), %rdx
    xorq WORDS(%rax, %r9, 8), %rdx
    cmpq $0xffff, %rdx
    ja 9f
    notl %edx
    .if \size == 8
    testl $(0xff << (8 * \write)), %edx
    .else
    movl %edi, %ecx
    andl $7, %ecx
    movl $(((1 << \size) - 1) << (8 * \write)), %r8d
    shll %cl, %r8d
    testl %r8d, %edx
    .endif
    jnz 9f
    .if \size == 1
    .set kind, 0
    .elseif \size == 2
    .set kind, 1
    .elseif \size == 4
    .set kind, 2
    .else
    .set kind, 3
    .endif
    incq COVERED + 8 * (kind + 5 * \write)(%rax)
    ret

    # Detect. The granule, then whether one of its cells covers this access.
    .p2align 4
3:  movq %rdi, %rcx
    movq DIRECTORY - 1(%rax), %rdx
    shrq $24, %rcx
    andl $0x7fffff, %ecx
    movq (%rdx, %rcx, 8), %rdx
    .if \size > 1
    testb $(\size - 1), %dil
    jnz 9f
    .endif
    testq %rdx, %rdx
    jz 9f
    movl %edi, %ecx
    andl $0xfffff8, %ecx
    leaq (%rdx, %rcx, 2), %rdx
    # The upper half of r8 is ones: a cell covers if nothing of r8 differs from r9.
    .if \size == 8
    movq $((0xff << 22) + PLAIN + WRITE * \write), %r8
    .else
    movl %edi, %ecx
    andl $7, %ecx
    movl $(((1 << \size) - 1) << 22), %r8d
    shll %cl, %r8d
    orq $(PLAIN + WRITE * \write), %r8
    .endif
    movq EPOCH - 1(%rax), %r9
    movq (%rdx), %rcx
    xorq %r9, %rcx
    testq %r8, %rcx
    jnz 4f
    ret
4:  movq 8(%rdx), %rcx
    movq %rcx, %rsi
    xorq %r9, %rcx
    testq %r8, %rcx
    jnz 5f
    ret
5:  movq %rsi, %rcx
    sarq $32, %rcx
    cmpq $-1, %rcx
    jne 9f
    leaq 9f(%rip), %r10
    jmp norns_find_linked

8:  cmpb $0, norns_on(%rip)
    jne 9f
    ret
9:  jmp \library@PLT
    .cfi_endproc
    .size \name, . - \name
.endm

# The second cell of the granule at rdx is a link, in rsi: looks for a cell that covers the access
# among the six of the first block behind it. r8, r9: as above; r10: where to go when there is none.
# The block must still be this granule's after the cell was read.
.p2align 5
.type norns_find_linked, @function
norns_find_linked:
    .cfi_startproc
    movl %esi, %ecx
    shlq $6, %rcx
    addq FIRST_BLOCK - 1(%rax), %rcx
    .irp cell, 16, 24, 32, 40, 48, 56
    movq \cell(%rcx), %rsi
    xorq %r9, %rsi
    testq %r8, %rsi
    jz 2f
    .endr
    jmp *%r10
2:  cmpq %rdx, (%rcx)
    jne 3f
    ret
3:  jmp *%r10
    .cfi_endproc
    .size norns_find_linked, . - norns_find_linked

access __tsan_read1, norns_read1, 1, 0
access __tsan_read2, norns_read2, 2, 0
access __tsan_read4, norns_read4, 4, 0
access __tsan_read8, norns_read8, 8, 0
access __tsan_write1, norns_write1, 1, 1
access __tsan_write2, norns_write2, 2, 1
access __tsan_write4, norns_write4, 4, 1
access __tsan_write8, norns_write8, 8, 1

# rdi: the return address of the function that was entered.
.p2align 5
.globl __tsan_func_entry
.type __tsan_func_entry, @function
__tsan_func_entry:
    .cfi_startproc
    movq norns_fast@gottpoff(%rip), %rax
    movq %fs:(%rax), %rax
    andq $-2, %rax
    jz 8f
    movq DEPTH(%rax), %rdx
    cmpq $MAX_DEPTH, %rdx
    jae 9f
    # A signal handler that runs now uses the next frame.
    leaq 1(%rdx), %rcx
    movq %rcx, DEPTH(%rax)
    shlq $4, %rdx
    leaq 8(%rsp), %rcx
    movq %rdi, FRAMES(%rax, %rdx)
    movq %rcx, FRAMES + 8(%rax, %rdx)
    ret
8:  cmpb $0, norns_on(%rip)
    jne 9f
    ret
9:  jmp norns_func_entry@PLT
    .cfi_endproc
    .size __tsan_func_entry, . - __tsan_func_entry

.p2align 5
.globl __tsan_func_exit
.type __tsan_func_exit, @function
__tsan_func_exit:
    .cfi_startproc
    movq norns_fast@gottpoff(%rip), %rax
    movq %fs:(%rax), %rax
    andq $-2, %rax
    jz 8f
    movq DEPTH(%rax), %rdx
    subq $1, %rdx
    jb 9f
    movq %rdx, DEPTH(%rax)
    cmpq COMMON(%rax), %rdx
    jb 7f
    ret
7:  movq %rdx, COMMON(%rax)
    ret
8:  cmpb $0, norns_on(%rip)
    jne 9f
    ret
9:  jmp norns_func_exit@PLT
    .cfi_endproc
    .size __tsan_func_exit, . - __tsan_func_exit

# Before the constructors of the program, after those of the library.
.p2align 4
.type norns_begin, @function
norns_begin:
    .cfi_startproc
    leaq norns_on(%rip), %rdi
    movq norns_fast@gottpoff(%rip), %rsi
    movl $LAYOUT, %edx
    jmp norns_register@PLT
    .cfi_endproc
    .size norns_begin, . - norns_begin

.section .init_array.00000, "aw", @init_array
.balign 8
    .quad norns_begin

.section .note.GNU-stack, "", @progbits
