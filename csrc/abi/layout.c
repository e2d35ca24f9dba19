/*
 * layout.c – see layout.h. Offsets come from the compiler, a forgotten field shows as a hole: the layout
 * test demands that fields cover each struct without one.
 */
#include "abi/layout.h"

#include "surge.h"

#define FIELD(owner, type, member) {#member, type, (uint32_t)offsetof(owner, member), (uint32_t)(sizeof(((owner *)0)->member))}

static const abi_field SURGE_ERROR[] = {
    FIELD(surge_error, "u32", struct_size),
    FIELD(surge_error, "i32", status),
    FIELD(surge_error, "i32", file),
    FIELD(surge_error, "i32", tensor),
    FIELD(surge_error, "u32", message_bytes),
    FIELD(surge_error, "u8", message),
};

static const abi_field SURGE_ABI_INFO[] = {
    FIELD(surge_abi_info, "u32", struct_size),
    FIELD(surge_abi_info, "u32", abi_version),
    FIELD(surge_abi_info, "u64", layout_hash),
};

static const abi_field SURGE_FILE_DESC[] = {
    FIELD(surge_file_desc, "u32", struct_size),
    FIELD(surge_file_desc, "u32", path_bytes),
    FIELD(surge_file_desc, "u64", path),
    FIELD(surge_file_desc, "u64", bytes),
    FIELD(surge_file_desc, "u64", mtime_ns),
    FIELD(surge_file_desc, "u64", inode),
};

static const abi_field SURGE_TENSOR_DESC[] = {
    FIELD(surge_tensor_desc, "u32", struct_size),
    FIELD(surge_tensor_desc, "u32", role),
    FIELD(surge_tensor_desc, "i32", layer),
    FIELD(surge_tensor_desc, "u32", dtype),
    FIELD(surge_tensor_desc, "u32", file),
    FIELD(surge_tensor_desc, "u32", expert_first),
    FIELD(surge_tensor_desc, "u32", expert_count),
    FIELD(surge_tensor_desc, "u32", row_first),
    FIELD(surge_tensor_desc, "u32", rows),
    FIELD(surge_tensor_desc, "u32", cols),
    FIELD(surge_tensor_desc, "u32", transform),
    FIELD(surge_tensor_desc, "i32", scale),
    FIELD(surge_tensor_desc, "u64", offset),
    FIELD(surge_tensor_desc, "u64", expert_stride),
};

static const abi_field SURGE_SCALE_DESC[] = {
    FIELD(surge_scale_desc, "u32", struct_size),
    FIELD(surge_scale_desc, "u32", kind),
    FIELD(surge_scale_desc, "u32", dtype),
    FIELD(surge_scale_desc, "u32", file),
    FIELD(surge_scale_desc, "u32", row_first),
    FIELD(surge_scale_desc, "u32", scale_rows),
    FIELD(surge_scale_desc, "u32", scale_cols),
    FIELD(surge_scale_desc, "u32", reserved),
    FIELD(surge_scale_desc, "u64", offset),
    FIELD(surge_scale_desc, "u64", expert_stride),
};

static const abi_field SURGE_MODEL_DESC[] = {
    FIELD(surge_model_desc, "u32", struct_size),
    FIELD(surge_model_desc, "u32", layers),
    FIELD(surge_model_desc, "u32", hidden),
    FIELD(surge_model_desc, "u32", vocab),
    FIELD(surge_model_desc, "u32", heads),
    FIELD(surge_model_desc, "u32", kv_heads),
    FIELD(surge_model_desc, "u32", head_dim),
    FIELD(surge_model_desc, "u32", rotary_dim),
    FIELD(surge_model_desc, "u32", attn_gated),
    FIELD(surge_model_desc, "u32", gdn_key_heads),
    FIELD(surge_model_desc, "u32", gdn_value_heads),
    FIELD(surge_model_desc, "u32", gdn_key_dim),
    FIELD(surge_model_desc, "u32", gdn_value_dim),
    FIELD(surge_model_desc, "u32", gdn_conv),
    FIELD(surge_model_desc, "u32", gdn_head_order),
    FIELD(surge_model_desc, "u32", experts),
    FIELD(surge_model_desc, "u32", experts_used),
    FIELD(surge_model_desc, "u32", expert_ff),
    FIELD(surge_model_desc, "u32", shared_ff),
    FIELD(surge_model_desc, "u32", norm_topk),
    FIELD(surge_model_desc, "u32", rope_kind),
    FIELD(surge_model_desc, "u32", rope_original_context),
    FIELD(surge_model_desc, "f32", rms_eps),
    FIELD(surge_model_desc, "f32", rope_theta),
    FIELD(surge_model_desc, "f32", rope_factor),
    FIELD(surge_model_desc, "f32", rope_beta_fast),
    FIELD(surge_model_desc, "f32", rope_beta_slow),
    FIELD(surge_model_desc, "f32", rope_attn_factor),
    FIELD(surge_model_desc, "u32", layer_kind_count),
    FIELD(surge_model_desc, "u32", mtp_layers),
    FIELD(surge_model_desc, "u64", layer_kinds),
};

static const abi_field SURGE_PLAN_DESC[] = {
    FIELD(surge_plan_desc, "u32", struct_size),
    FIELD(surge_plan_desc, "u32", precision),
    FIELD(surge_plan_desc, "u32", kv_dtype),
    FIELD(surge_plan_desc, "u32", threads),
    FIELD(surge_plan_desc, "u32", context),
    FIELD(surge_plan_desc, "u32", sequences),
    FIELD(surge_plan_desc, "u32", step_rows),
    FIELD(surge_plan_desc, "u32", logits_rows),
    FIELD(surge_plan_desc, "u32", npu_devices),
    FIELD(surge_plan_desc, "u32", copy_weights),
    FIELD(surge_plan_desc, "u32", draft_rows),
    FIELD(surge_plan_desc, "u32", lock_memory),
    FIELD(surge_plan_desc, "u64", cpus),
};

static const abi_field SURGE_ENGINE_DESC[] = {
    FIELD(surge_engine_desc, "u32", struct_size),
    FIELD(surge_engine_desc, "u32", file_count),
    FIELD(surge_engine_desc, "u32", tensor_count),
    FIELD(surge_engine_desc, "u32", scale_count),
    FIELD(surge_engine_desc, "u64", model),
    FIELD(surge_engine_desc, "u64", plan),
    FIELD(surge_engine_desc, "u64", files),
    FIELD(surge_engine_desc, "u64", tensors),
    FIELD(surge_engine_desc, "u64", scales),
};

static const abi_field SURGE_MEMORY[] = {
    FIELD(surge_memory, "u32", struct_size),
    FIELD(surge_memory, "u32", reserved),
    FIELD(surge_memory, "u64", kv),
    FIELD(surge_memory, "u64", states),
    FIELD(surge_memory, "u64", scratch),
    FIELD(surge_memory, "u64", vectors),
    FIELD(surge_memory, "u64", tables),
    FIELD(surge_memory, "u64", total),
    FIELD(surge_memory, "u64", mapped),
    FIELD(surge_memory, "u64", copied),
};

static const abi_field SURGE_ROW[] = {
    FIELD(surge_row, "u32", sequence),
    FIELD(surge_row, "u32", position),
    FIELD(surge_row, "u32", token),
    FIELD(surge_row, "u32", flags),
};

static const abi_field SURGE_LOGIT_BIAS[] = {
    FIELD(surge_logit_bias, "u32", token),
    FIELD(surge_logit_bias, "f32", bias),
};

static const abi_field SURGE_SAMPLER_DESC[] = {
    FIELD(surge_sampler_desc, "u32", struct_size),
    FIELD(surge_sampler_desc, "f32", temperature),
    FIELD(surge_sampler_desc, "u32", top_k),
    FIELD(surge_sampler_desc, "f32", top_p),
    FIELD(surge_sampler_desc, "f32", min_p),
    FIELD(surge_sampler_desc, "f32", presence_penalty),
    FIELD(surge_sampler_desc, "f32", frequency_penalty),
    FIELD(surge_sampler_desc, "f32", repeat_penalty),
    FIELD(surge_sampler_desc, "u32", answer_from),
    FIELD(surge_sampler_desc, "u32", top_logprobs),
    FIELD(surge_sampler_desc, "u32", bias_count),
    FIELD(surge_sampler_desc, "u32", want_logprob),
    FIELD(surge_sampler_desc, "u64", biases),
    FIELD(surge_sampler_desc, "u64", seed),
    FIELD(surge_sampler_desc, "u64", draw),
};

static const abi_field SURGE_SAMPLE[] = {
    FIELD(surge_sample, "u32", struct_size),
    FIELD(surge_sample, "u32", token),
    FIELD(surge_sample, "f32", logprob),
    FIELD(surge_sample, "u32", top_count),
    FIELD(surge_sample, "u32", top_tokens),
    FIELD(surge_sample, "f32", top_logprobs),
};

static const abi_field SURGE_COUNTERS[] = {
    FIELD(surge_counters, "u32", struct_size), FIELD(surge_counters, "u32", reserved), FIELD(surge_counters, "u64", steps),
    FIELD(surge_counters, "u64", rows),        FIELD(surge_counters, "u64", ns),       FIELD(surge_counters, "u64", bytes),
    FIELD(surge_counters, "u64", macs),
};

static const abi_field SURGE_PLACEMENT[] = {
    FIELD(surge_placement, "u32", struct_size), FIELD(surge_placement, "u32", pinned_threads), FIELD(surge_placement, "u64", weights),
    FIELD(surge_placement, "u64", arena),       FIELD(surge_placement, "u64", cpus),
};

static const abi_field SURGE_CPU_INFO[] = {
    FIELD(surge_cpu_info, "u32", struct_size),
    FIELD(surge_cpu_info, "u32", tile_rows),
    FIELD(surge_cpu_info, "u32", name_bytes),
    FIELD(surge_cpu_info, "u8", name),
};

_Static_assert(sizeof(((surge_counters *)0)->ns) == SURGE_OP_COUNT * sizeof(uint64_t), "counters hold one entry per op");

_Static_assert(sizeof(((surge_placement *)0)->weights) == SURGE_PAGE_COUNT * sizeof(uint64_t), "a placement holds one entry per kind of page");

#define STRUCT(name, fields) {#name, (uint32_t)sizeof(name), (uint32_t)(sizeof(fields) / sizeof(fields)[0]), fields}

static const abi_struct STRUCTS[] = {
    STRUCT(surge_error, SURGE_ERROR),
    STRUCT(surge_abi_info, SURGE_ABI_INFO),
    STRUCT(surge_file_desc, SURGE_FILE_DESC),
    STRUCT(surge_tensor_desc, SURGE_TENSOR_DESC),
    STRUCT(surge_scale_desc, SURGE_SCALE_DESC),
    STRUCT(surge_model_desc, SURGE_MODEL_DESC),
    STRUCT(surge_plan_desc, SURGE_PLAN_DESC),
    STRUCT(surge_engine_desc, SURGE_ENGINE_DESC),
    STRUCT(surge_memory, SURGE_MEMORY),
    STRUCT(surge_row, SURGE_ROW),
    STRUCT(surge_logit_bias, SURGE_LOGIT_BIAS),
    STRUCT(surge_sampler_desc, SURGE_SAMPLER_DESC),
    STRUCT(surge_sample, SURGE_SAMPLE),
    STRUCT(surge_counters, SURGE_COUNTERS),
    STRUCT(surge_placement, SURGE_PLACEMENT),
    STRUCT(surge_cpu_info, SURGE_CPU_INFO),
};

#define CONSTANT(prefix, name) {#name, (int32_t)SURGE_##prefix##name}

static const abi_constant STATUS[] = {
#define X(name, value, meaning) CONSTANT(, name),
    SURGE_STATUSES(X)
#undef X
};
static const abi_constant ROLE[] = {
#define X(name) CONSTANT(ROLE_, name),
    SURGE_ROLES(X)
#undef X
};
static const abi_constant OP[] = {
#define X(name) CONSTANT(OP_, name),
    SURGE_OPS(X)
#undef X
};
static const abi_constant PAGE[] = {
#define X(name) CONSTANT(PAGE_, name),
    SURGE_PAGES(X)
#undef X
};
static const abi_constant LAYER[] = {CONSTANT(LAYER_, ATTENTION), CONSTANT(LAYER_, GDN)};
static const abi_constant HEADS[] = {CONSTANT(HEADS_, GROUPED), CONSTANT(HEADS_, TILED)};
static const abi_constant ROPE[] = {CONSTANT(ROPE_, DEFAULT), CONSTANT(ROPE_, YARN)};
static const abi_constant TRANSFORM[] = {CONSTANT(TRANSFORM_, NONE), CONSTANT(TRANSFORM_, ADD_ONE), CONSTANT(TRANSFORM_, NEG_EXP)};
static const abi_constant SCALE[] = {CONSTANT(SCALE_, BLOCK_128), CONSTANT(SCALE_, TENSOR)};
static const abi_constant PRECISION[] = {CONSTANT(PRECISION_, EXACT), CONSTANT(PRECISION_, FAST)};
static const abi_constant KV[] = {CONSTANT(KV_, F32), CONSTANT(KV_, F16)};
static const abi_constant LIMIT[] = {CONSTANT(, TOP_LOGPROBS_MAX), CONSTANT(, LOGIT_BIAS_MAX)};
static const abi_constant ROW[] = {CONSTANT(ROW_, LOGITS), CONSTANT(ROW_, DRAFT)};

#define ENUM(name) {#name, (uint32_t)(sizeof(name) / sizeof(name)[0]), name}

static const abi_enum ENUMS[] = {ENUM(STATUS), ENUM(ROLE),      ENUM(LAYER), ENUM(HEADS), ENUM(ROPE), ENUM(TRANSFORM),
                                 ENUM(SCALE),  ENUM(PRECISION), ENUM(KV),    ENUM(LIMIT), ENUM(ROW),
                                 ENUM(OP),     ENUM(PAGE)};

const abi_enum *abi_enums(size_t *ret_count) {
  *ret_count = sizeof ENUMS / sizeof ENUMS[0];
  return ENUMS;
}

const abi_struct *abi_structs(size_t *ret_count) {
  *ret_count = sizeof STRUCTS / sizeof STRUCTS[0];
  return STRUCTS;
}

static uint64_t mix_byte(uint64_t hash, uint8_t byte) { return (hash ^ byte) * 0x100000001b3u; }

static uint64_t mix_text(uint64_t hash, const char *text) {
  for (; *text != '\0'; text++) {
    hash = mix_byte(hash, (uint8_t)*text);
  }
  return mix_byte(hash, 0);
}

static uint64_t mix_u32(uint64_t hash, uint32_t value) {
  for (int i = 0; i < 4; i++) {
    hash = mix_byte(hash, (uint8_t)(value >> (8 * i)));
  }
  return hash;
}

static uint64_t mix_enum(uint64_t hash, const abi_enum *e) {
  hash = mix_text(hash, e->name);
  for (uint32_t i = 0; i < e->count; i++) {
    hash = mix_u32(mix_text(hash, e->constants[i].name), (uint32_t)e->constants[i].value);
  }
  return hash;
}

uint64_t abi_layout_hash(void) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < sizeof ENUMS / sizeof ENUMS[0]; i++) {
    hash = mix_enum(hash, &ENUMS[i]);
  }
  for (size_t i = 0; i < sizeof STRUCTS / sizeof STRUCTS[0]; i++) {
    hash = mix_u32(mix_text(hash, STRUCTS[i].name), STRUCTS[i].size);
    for (uint32_t f = 0; f < STRUCTS[i].field_count; f++) {
      const abi_field *field = &STRUCTS[i].fields[f];
      hash = mix_u32(mix_u32(mix_text(mix_text(hash, field->name), field->type), field->offset), field->bytes);
    }
  }
  return hash;
}
