// hiprtc: programs are compiled by the translation service with rocm-perf-lab's compiler.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "../driver/service.h"
#include "modules.h"

enum result { SUCCESS, OUT_OF_MEMORY, PROGRAM_CREATION_FAILURE, INVALID_INPUT, INVALID_PROGRAM, INVALID_OPTION, COMPILATION, BUILTIN_FAILURE,
              NO_NAMES_AFTER_COMPILATION, NO_LOWERED_NAMES_BEFORE_COMPILATION, NAME_NOT_VALID, INTERNAL_ERROR, LINKING = 100 };
static const char *const result_names[] = {
    "HIPRTC_SUCCESS", "HIPRTC_ERROR_OUT_OF_MEMORY", "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE", "HIPRTC_ERROR_INVALID_INPUT", "HIPRTC_ERROR_INVALID_PROGRAM",
    "HIPRTC_ERROR_INVALID_OPTION", "HIPRTC_ERROR_COMPILATION", "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE",
    "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION", "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION", "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
    "HIPRTC_ERROR_INTERNAL_ERROR"};

struct texts { char *bytes; size_t count, capacity; uint32_t number; };
struct program {
  struct texts source;            // source and its name
  struct texts headers, expressions;  // headers: name, content, name, content
  void *answer;                   // of the service, once compiled
  const struct rpl_hip_compiled *result;
  const char *log, *names;
  const uint8_t *code;
  struct program *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct program *programs;

static int add(struct texts *texts, const char *text) {
  size_t bytes = strlen(text) + 1;
  if (texts->count + bytes > texts->capacity) {
    size_t capacity = 2 * (texts->count + bytes);
    char *bigger = realloc(texts->bytes, capacity);
    if (!bigger) return 0;
    texts->bytes = bigger;
    texts->capacity = capacity;
  }
  memcpy(texts->bytes + texts->count, text, bytes);
  texts->count += bytes;
  texts->number++;
  return 1;
}

static int is_program(const struct program *program) {
  pthread_mutex_lock(&lock);
  const struct program *at = programs;
  while (at && at != program) at = at->next;
  pthread_mutex_unlock(&lock);
  return program && at;
}

static void free_program(struct program *program) {
  free(program->source.bytes);
  free(program->headers.bytes);
  free(program->expressions.bytes);
  free(program->answer);
  free(program);
}

static int fill(struct program *program, const char *source, const char *name, int count, const char *const *headers, const char *const *names) {
  int done = add(&program->source, source) && add(&program->source, name ? name : "CompileSource");
  for (int k = 0; done && k < count; k++) done = add(&program->headers, names[k]) && add(&program->headers, headers[k]);
  return done;
}

HIP_API enum result hiprtcCreateProgram(struct program **result, const char *source, const char *name, int count, const char **headers, const char **names);
HIP_API enum result hiprtcCreateProgram(struct program **result, const char *source, const char *name, int count, const char **headers, const char **names) {
  if (!result || count < 0 || (count && (!headers || !names))) return INVALID_INPUT;
  if (!source) return INVALID_INPUT;
  struct program *program = calloc(1, sizeof *program);
  if (!program || !fill(program, source, name, count, headers, names)) {
    if (program) free_program(program);
    return OUT_OF_MEMORY;
  }
  pthread_mutex_lock(&lock);
  program->next = programs;
  programs = program;
  pthread_mutex_unlock(&lock);
  *result = program;
  return SUCCESS;
}

HIP_API enum result hiprtcDestroyProgram(struct program **handle);
HIP_API enum result hiprtcDestroyProgram(struct program **handle) {
  if (!handle) return INVALID_INPUT;
  if (!is_program(*handle)) return INVALID_PROGRAM;
  pthread_mutex_lock(&lock);
  struct program **at = &programs;
  while (*at != *handle) at = &(*at)->next;
  *at = (*handle)->next;
  pthread_mutex_unlock(&lock);
  free_program(*handle);
  *handle = NULL;
  return SUCCESS;
}

HIP_API enum result hiprtcAddNameExpression(struct program *program, const char *expression);
HIP_API enum result hiprtcAddNameExpression(struct program *program, const char *expression) {
  if (!expression) return INVALID_INPUT;
  if (!is_program(program)) return INVALID_PROGRAM;
  if (program->answer) return NO_NAMES_AFTER_COMPILATION;
  return add(&program->expressions, expression) ? SUCCESS : OUT_OF_MEMORY;
}

static enum result compile(struct program *program, const struct texts *options) {
  if (hip_initialize() != hipSuccess) return INTERNAL_ERROR;
  struct rpl_hip_compile head = {{0}, options->number, program->headers.number / 2, program->expressions.number, 0};
  snprintf(head.architecture, sizeof head.architecture, "%s", hip_current_device()->architecture);
  struct iovec parts[] = {{&head, sizeof head}, {program->source.bytes, program->source.count}, {options->bytes, options->count},
                          {program->headers.bytes, program->headers.count}, {program->expressions.bytes, program->expressions.count}};
  void *answer = NULL;
  uint64_t bytes;
  if (hip_ask_service(RPL_HIP_COMPILE, parts, sizeof parts / sizeof *parts, &answer, &bytes) != RPL_HIP_COMPILED) {
    free(answer);
    return INTERNAL_ERROR;
  }
  free(program->answer);
  program->answer = answer;
  program->result = answer;
  program->log = (const char *)answer + sizeof *program->result;
  program->names = program->log + strlen(program->log) + 1;
  program->code = (const uint8_t *)answer + bytes - program->result->code_bytes;
  return program->result->succeeded ? SUCCESS : COMPILATION;
}

HIP_API enum result hiprtcCompileProgram(struct program *program, int count, const char **options);
HIP_API enum result hiprtcCompileProgram(struct program *program, int count, const char **options) {
  if (!is_program(program)) return INVALID_PROGRAM;
  if (count < 0 || (count && !options)) return INVALID_INPUT;
  struct texts list = {0};
  int done = 1;
  for (int k = 0; done && k < count; k++) {
    if (!options[k]) {
      free(list.bytes);
      return INVALID_OPTION;
    }
    done = add(&list, options[k]);
  }
  enum result result = done ? compile(program, &list) : OUT_OF_MEMORY;
  free(list.bytes);
  return result;
}

HIP_API enum result hiprtcGetProgramLogSize(const struct program *program, size_t *bytes);
HIP_API enum result hiprtcGetProgramLogSize(const struct program *program, size_t *bytes) {
  if (!bytes) return INVALID_INPUT;
  if (!is_program(program)) return INVALID_PROGRAM;
  *bytes = program->log && *program->log ? strlen(program->log) + 1 : 0;
  return SUCCESS;
}

HIP_API enum result hiprtcGetProgramLog(const struct program *program, char *log);
HIP_API enum result hiprtcGetProgramLog(const struct program *program, char *log) {
  if (!log) return INVALID_INPUT;
  if (!is_program(program)) return INVALID_PROGRAM;
  if (program->log && *program->log) memcpy(log, program->log, strlen(program->log) + 1);
  return SUCCESS;
}

HIP_API enum result hiprtcGetCodeSize(const struct program *program, size_t *bytes);
HIP_API enum result hiprtcGetCodeSize(const struct program *program, size_t *bytes) {
  if (!bytes) return INVALID_INPUT;
  if (!is_program(program)) return INVALID_PROGRAM;
  *bytes = program->result ? program->result->code_bytes : 0;
  return SUCCESS;
}

HIP_API enum result hiprtcGetCode(const struct program *program, char *code);
HIP_API enum result hiprtcGetCode(const struct program *program, char *code) {
  if (!code) return INVALID_INPUT;
  if (!is_program(program)) return INVALID_PROGRAM;
  if (program->result) memcpy(code, program->code, program->result->code_bytes);
  return SUCCESS;
}

static const char *following(const char *text, uint32_t count) {
  while (count--) text += strlen(text) + 1;
  return text;
}

HIP_API enum result hiprtcGetLoweredName(const struct program *program, const char *expression, const char **lowered);
HIP_API enum result hiprtcGetLoweredName(const struct program *program, const char *expression, const char **lowered) {
  if (!expression || !lowered) return INVALID_INPUT;
  if (!is_program(program)) return INVALID_PROGRAM;
  if (!program->result || !program->result->succeeded) return NO_LOWERED_NAMES_BEFORE_COMPILATION;
  for (uint32_t k = 0; k < program->result->name_count; k++) {
    if (strcmp(following(program->expressions.bytes, k), expression) != 0) continue;
    *lowered = following(program->names, k);
    return **lowered ? SUCCESS : NAME_NOT_VALID;
  }
  return NAME_NOT_VALID;
}

HIP_API enum result hiprtcVersion(int *major, int *minor);
HIP_API enum result hiprtcVersion(int *major, int *minor) {
  if (!major || !minor) return INVALID_INPUT;
  *major = 9;                     // as AMD's, of any release
  *minor = 0;
  return SUCCESS;
}

HIP_API const char *hiprtcGetErrorString(enum result result);
HIP_API const char *hiprtcGetErrorString(enum result result) {
  if (result == LINKING) return "HIPRTC_ERROR_LINKING";
  return (unsigned)result <= INTERNAL_ERROR ? result_names[result] : "Invalid HIPRTC error code";
}
