/* Looks like an older copy of the library whose table cannot be read. */
__attribute__((used, visibility("hidden"))) const unsigned older_table[8] = {999};
__asm__(".pushsection .note.nanos,\"a\",@note\n"
        ".balign 4\n"
        ".long 6, 4, 1\n"
        ".asciz \"NANOS\"\n"
        ".balign 4\n"
        ".long older_table - .\n"
        ".popsection\n");
