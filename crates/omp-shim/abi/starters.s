# Calls of the C library that start programs, in front of those: see src/abi/starters.rs. Only for the shared library.
# They stand in no version node, like those of a library that has none: so programs that ask for the C library's version of
# them take these. The numbers are places in the table of what they go on to.
	.section .note.GNU-stack,"",@progbits

	.section .init_array,"aw",@init_array
	.balign	8
	.quad	nanos_find_starters

	.text
	.hidden	nanos_find_starters
	.hidden	nanos_next_starters
	.hidden	nanos_before_exec
	.hidden	nanos_starts_bound

	.macro push_one register
	pushq	\register
	.cfi_adjust_cfa_offset 8
	.endm

	.macro pop_one register
	popq	\register
	.cfi_adjust_cfa_offset -8
	.endm

# Calls \function with \number; all that a caller may have passed in registers is as before, and so are the flags behind it.
	.macro keeping_arguments function, number
	push_one %rdi
	push_one %rsi
	push_one %rdx
	push_one %rcx
	push_one %r8
	push_one %r9
	push_one %rax
	movl	$\number, %edi
	call	\function
	testb	%al, %al
	pop_one %rax
	pop_one %r9
	pop_one %r8
	pop_one %rcx
	pop_one %rdx
	pop_one %rsi
	pop_one %rdi
	.endm

	.macro begin name
	.globl	front_\name
	.type	front_\name, @function
front_\name:
	.cfi_startproc
	.endm

	.macro end name, number
	jmp	*nanos_next_starters + 8 * \number(%rip)
	.cfi_endproc
	.size	front_\name, . - front_\name
	.symver	front_\name, \name@@
	.endm

	.macro exec name, number
	begin	\name
	keeping_arguments nanos_before_exec, \number
	end	\name, \number
	.endm

	.macro spawn name, number
	.hidden	nanos_\name
	begin	\name
	keeping_arguments nanos_starts_bound, \number
	jne	nanos_\name
	end	\name, \number
	.endm

	exec	execve, 0
	exec	execv, 1
	exec	execvp, 2
	exec	execvpe, 3
	exec	execl, 4
	exec	execle, 5
	exec	execlp, 6
	exec	fexecve, 7
	spawn	posix_spawn, 8
	spawn	posix_spawnp, 9
	spawn	system, 10
	spawn	popen, 11
