/*
 * layout.h – the layout of everything that crosses the boundary, and the meaning of every number in it, as data: one list for the hash
 * and for the generated TypeScript. Storage types are not in it: their ids are GGML's and do not move.
 */
#ifndef ABI_LAYOUT_H
#define ABI_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

typedef struct abi_field {
  const char *name, *type; /* type: u8 u32 i32 u64 f32 */
  uint32_t offset, bytes;
} abi_field;

typedef struct abi_struct {
  const char *name;
  uint32_t size, field_count;
  const abi_field *fields;
} abi_struct;

const abi_struct *abi_structs(size_t *ret_count);
typedef struct abi_constant {
  const char *name;
  int32_t value;
} abi_constant;

typedef struct abi_enum {
  const char *name;
  uint32_t count;
  const abi_constant *constants;
} abi_enum;

const abi_enum *abi_enums(size_t *ret_count);
/* FNV-1a over names, types, offsets and sizes of the structs and names and values of the enums. */
uint64_t abi_layout_hash(void);

#endif
