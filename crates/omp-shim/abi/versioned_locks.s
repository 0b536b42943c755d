# The lock functions in both versions: thread-owned locks of OpenMP 2.5 (OMP_1.0, programs made by gcc before 4.4)
# and task-owned ones (OMP_3.0, the default). Only for the shared library; a static one knows no versions.
# The Rust functions of the plain names are renamed to nanos_new_* in a copy of the archive before the link.
	.section .note.GNU-stack,"",@progbits
	.text

	.macro versioned name
	.globl	new_\name
	.type	new_\name, @function
new_\name:
	jmp	nanos_new_\name
	.size	new_\name, . - new_\name
	.symver	new_\name, \name@@OMP_3.0
	.globl	old_\name
	.type	old_\name, @function
old_\name:
	jmp	nanos_old_\name
	.size	old_\name, . - old_\name
	.symver	old_\name, \name@OMP_1.0
	.endm

	versioned omp_init_lock
	versioned omp_init_lock_
	versioned omp_destroy_lock
	versioned omp_destroy_lock_
	versioned omp_set_lock
	versioned omp_set_lock_
	versioned omp_unset_lock
	versioned omp_unset_lock_
	versioned omp_test_lock
	versioned omp_test_lock_
	versioned omp_init_nest_lock
	versioned omp_init_nest_lock_
	versioned omp_destroy_nest_lock
	versioned omp_destroy_nest_lock_
	versioned omp_set_nest_lock
	versioned omp_set_nest_lock_
	versioned omp_unset_nest_lock
	versioned omp_unset_nest_lock_
	versioned omp_test_nest_lock
	versioned omp_test_nest_lock_
