/* Allocators with traits: alignments, pools that are used up, what is done then; the allocate clause and directive. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void show(const char *what, void *block, size_t align) {
  printf("%s %s %d\n", what, block ? "yes" : "no", (int)((uintptr_t)block % align));
}

static omp_allocator_handle_t with(omp_memspace_handle_t space, int count, const omp_alloctrait_t *traits) {
  omp_allocator_handle_t allocator = omp_init_allocator(space, count, traits);
  printf("allocator %d\n", allocator != omp_null_allocator);
  return allocator;
}

static volatile size_t three = 3;

int main(void) {
  omp_alloctrait_t aligned[] = {{omp_atk_alignment, 256}, {omp_atk_sync_hint, omp_atv_private}};
  omp_allocator_handle_t a = with(omp_default_mem_space, 2, aligned);
  void *block = omp_alloc(100, a);
  show("aligned", block, 256);
  block = omp_realloc(block, 5000, a, a);
  show("realloc", block, 256);
  omp_free(block, a);
  block = omp_aligned_alloc(1024, 2048, a);
  show("aligned_alloc", block, 1024);
  omp_free(block, omp_null_allocator);
  char *zero = omp_aligned_calloc(512, 10, 300, a);
  int sum = 0;
  for (int i = 0; i < 3000; i++) sum += zero[i];
  show("calloc", zero, 512);
  printf("%d\n", sum);
  memset(zero, 5, 3000);
  zero = omp_realloc(zero, 100, omp_default_mem_alloc, a);
  printf("%d %d\n", zero[0], zero[99]);
  zero = omp_realloc(zero, 0, omp_null_allocator, omp_null_allocator);
  printf("%d\n", zero == NULL);
  show("nothing", omp_alloc(0, a), 1);
  omp_free(NULL, a);
  omp_destroy_allocator(a);

  omp_alloctrait_t pool[] = {{omp_atk_pool_size, 4096}, {omp_atk_fallback, omp_atv_null_fb}};
  a = with(omp_default_mem_space, 2, pool);
  void *first = omp_alloc(3000, a), *second = omp_alloc(3000, a);
  show("first", first, 1);
  show("second", second, 1);
  omp_free(first, a);
  second = omp_alloc(3000, a);
  show("again", second, 1);
  show("calloc", omp_calloc(1000, 1000, a), 1);
  show("overflow", omp_calloc(SIZE_MAX / 2, three, a), 1);
  void *larger = omp_realloc(second, 6000, a, a);
  show("realloc", larger, 1);
  omp_free(larger ? larger : second, a);
  omp_destroy_allocator(a);

  omp_alloctrait_t otherwise[] = {{omp_atk_pool_size, 64}, {omp_atk_fallback, omp_atv_default_mem_fb}};
  a = with(omp_default_mem_space, 2, otherwise);
  first = omp_alloc(100000, a);
  show("default", first, 1);
  omp_free(first, a);
  omp_alloctrait_t chain[] = {
      {omp_atk_pool_size, 32}, {omp_atk_fallback, omp_atv_allocator_fb}, {omp_atk_fb_data, (omp_uintptr_t)a}};
  omp_allocator_handle_t b = with(omp_default_mem_space, 3, chain);
  first = omp_alloc(50, b);
  show("chain", first, 1);
  second = omp_alloc(5000, b);
  show("chain", second, 1);
  omp_free(first, b);
  omp_free(second, omp_null_allocator);
  omp_destroy_allocator(b);
  omp_destroy_allocator(a);

  omp_alloctrait_t wrong[] = {{omp_atk_alignment, 3}};
  a = with(omp_default_mem_space, 1, wrong);
  omp_alloctrait_t incomplete[] = {{omp_atk_fallback, omp_atv_allocator_fb}};
  a = with(omp_default_mem_space, 1, incomplete);
  omp_alloctrait_t pages[] = {{omp_atk_partition, omp_atv_nearest}, {omp_atk_pinned, omp_atv_false},
                              {omp_atk_access, omp_atv_all}};
  a = with(omp_large_cap_mem_space, 3, pages);
  omp_destroy_allocator(a);
  a = with(omp_low_lat_mem_space, 0, NULL);
  omp_destroy_allocator(a);
  omp_destroy_allocator(omp_null_allocator);

  printf("default %d\n", omp_get_default_allocator() == omp_default_mem_alloc);
  omp_set_default_allocator(omp_large_cap_mem_alloc);
  int inherited = 0, bad = 0;
#pragma omp parallel num_threads(3) reduction(+ : inherited)
  inherited += omp_get_default_allocator() == omp_large_cap_mem_alloc;
  printf("inherited %d\n", inherited);
  int x[40];
  for (int i = 0; i < 40; i++) x[i] = i;
#pragma omp parallel num_threads(3) private(x) reduction(+ : bad) allocate(omp_default_mem_alloc : x)
  {
    for (int i = 0; i < 40; i++) x[i] = omp_get_thread_num();
#pragma omp barrier
    for (int i = 0; i < 40; i++) bad += x[i] != omp_get_thread_num();
  }
#pragma omp parallel num_threads(3) firstprivate(x) reduction(+ : bad) allocate(align(64), allocator(omp_thread_mem_alloc) : x)
  for (int i = 0; i < 40; i++) bad += x[i] != i, bad += (uintptr_t)x % 64 != 0;
  printf("bad %d\n", bad);
  return 0;
}
