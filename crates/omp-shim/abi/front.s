# Calls of the C library that start programs and threads, in front of those: see src/abi/front.rs.
# Only for the shared library.
# They stand in no version node, like those of a library that has none: so programs that ask for the C library's version of
# them take these. The numbers are places in the table of what they go on to.
# This library itself calls nanos_own_*, to which its references are renamed in a copy of the archive before the link: they
# pass by what is in front here, to the first of the process (and ld dies of references beside such definitions).
	.section .note.GNU-stack,"",@progbits

	.section .init_array,"aw",@init_array
	.balign	8
	.quad	nanos_find_all

	.text
	.hidden	nanos_find_all
	.hidden	nanos_next_in_front
	.hidden	nanos_own_in_front
	.hidden	nanos_before_exec
	.hidden	nanos_needs_unbound
	.hidden	nanos_find_next
	.hidden	nanos_find_own

	.macro push_one register
	pushq	\register
	.cfi_adjust_cfa_offset 8
	.endm

	.macro pop_one register
	popq	\register
	.cfi_adjust_cfa_offset -8
	.endm

# Calls \function with \number and the caller's third argument, which pthread_create's thread begins at; all that a caller
# may have passed in registers is as before, and so are the flags after it.
	.macro keeping_arguments function, number
	push_one %rdi
	push_one %rsi
	push_one %rdx
	push_one %rcx
	push_one %r8
	push_one %r9
	push_one %rax
	movq	%rdx, %rsi
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
	.type	\name, @function
\name:
	.cfi_startproc
	.endm

	.macro end name, number, table=nanos_next_in_front
	jmp	*\table + 8 * \number(%rip)
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.macro both name, number
	.globl	front_\name
	.symver	front_\name, \name@@
	.globl	nanos_own_\name
	.hidden	nanos_own_\name
	begin	nanos_own_\name
	keeping_arguments nanos_find_own, \number
	end	nanos_own_\name, \number, nanos_own_in_front
	.endm

	.macro exec name, number
	both	\name, \number
	begin	front_\name
	keeping_arguments nanos_before_exec, \number
	end	front_\name, \number
	.endm

	.macro spawn name, number
	both	\name, \number
	.hidden	nanos_\name
	begin	front_\name
	keeping_arguments nanos_needs_unbound, \number
	jne	nanos_\name
	end	front_\name, \number
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
	spawn	pthread_create, 12
