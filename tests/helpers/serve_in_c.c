/* Loads a SavedModel and runs it on strings through TensorFlow's C API: the loader TensorFlow Serving uses, no Python.

   serve_in_c FOLDER INPUTS OUTPUTS [op library .so ...] <STRINGS

   INPUTS and OUTPUTS are comma-separated tensor names ("serving_default_text:0"). Standard input holds, for each input,
   the number of its dimensions, these, and each string as its length in bytes, a line feed and the bytes. Prints one
   JSON object a line for each output: {"shape": [..], "values": [..]}. Ends with 1 and one line of explanation if
   anything fails. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

enum { MOST = 32 };

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(const char *what, TF_Status *status) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

/* Finds the tensors of a comma-separated list; cuts the list up. */
static int find(TF_Graph *graph, char *names, TF_Output *found) {
  int count = 0;
  for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
    if (count == MOST) fail(name, "too many tensors");
    char *colon = strrchr(name, ':');
    int index = colon ? atoi(colon + 1) : 0;
    if (colon) *colon = '\0';
    found[count] = (TF_Output){TF_GraphOperationByName(graph, name), index};
    if (!found[count].oper) fail(name, "no such operation in the graph");
    count++;
  }
  return count;
}

/* Reads one batch of strings from standard input. */
static TF_Tensor *read_strings(void) {
  int rank;
  int64_t shape[MOST], count = 1;
  if (scanf("%d", &rank) != 1 || rank < 0 || rank > MOST) fail("standard input", "expected a number of dimensions");
  for (int i = 0; i < rank; i++) {
    if (scanf("%" SCNd64, &shape[i]) != 1 || shape[i] < 0) fail("standard input", "expected a dimension");
    count *= shape[i];
  }
  TF_Tensor *batch = TF_AllocateTensor(TF_STRING, shape, rank, (size_t)count * sizeof(TF_TString));
  TF_TString *strings = TF_TensorData(batch);
  for (int64_t i = 0; i < count; i++) {
    size_t length;
    if (scanf("%zu", &length) != 1 || getchar() != '\n') fail("standard input", "expected a length and a line feed");
    char *bytes = malloc(length + 1);
    if (fread(bytes, 1, length, stdin) != length) fail("standard input", "ended within a string");
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], bytes, length);
    free(bytes);
  }
  return batch;
}

static void print_string(const TF_TString *string) {
  const unsigned char *bytes = (const unsigned char *)TF_StringGetDataPointer(string);
  putchar('"');
  for (size_t i = 0; i < TF_StringGetSize(string); i++) {
    if (bytes[i] < 0x20 || bytes[i] == '"' || bytes[i] == '\\') printf("\\u%04x", bytes[i]);
    else putchar(bytes[i]);
  }
  putchar('"');
}

static void print_real(double value) {
  if (isnan(value)) printf("NaN");
  else if (isinf(value)) printf(value > 0 ? "Infinity" : "-Infinity");
  else printf("%.9g", value);
}

static void print_value(const TF_Tensor *tensor, int64_t i) {
  const void *data = TF_TensorData(tensor);
  switch (TF_TensorType(tensor)) {
    case TF_STRING: print_string((const TF_TString *)data + i); break;
    case TF_FLOAT: print_real(((const float *)data)[i]); break;
    case TF_DOUBLE: print_real(((const double *)data)[i]); break;
    case TF_INT32: printf("%" PRId32, ((const int32_t *)data)[i]); break;
    case TF_INT64: printf("%" PRId64, ((const int64_t *)data)[i]); break;
    case TF_BOOL: printf(((const unsigned char *)data)[i] ? "true" : "false"); break;
    default: fail("output", "expected strings, float32, float64, int32, int64 or bool");
  }
}

static void print_tensor(const TF_Tensor *tensor) {
  printf("{\"shape\": [");
  for (int i = 0; i < TF_NumDims(tensor); i++) printf("%s%" PRId64, i ? ", " : "", TF_Dim(tensor, i));
  printf("], \"values\": [");
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); i++) {
    if (i) printf(", ");
    print_value(tensor, i);
  }
  printf("]}\n");
}

int main(int argc, char **argv) {
  if (argc < 4) fail("usage", "serve_in_c FOLDER INPUTS OUTPUTS [op library .so ...] <STRINGS");
  TF_Status *status = TF_NewStatus();
  for (int i = 4; i < argc; i++) {
    TF_LoadLibrary(argv[i], status);
    check(argv[i], status);
  }
  const char *tags[] = {"serve"};
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check("load", status);

  TF_Output inputs[MOST], outputs[MOST];
  TF_Tensor *given[MOST], *results[MOST];
  int input_count = find(graph, argv[2], inputs), output_count = find(graph, argv[3], outputs);
  for (int i = 0; i < input_count; i++) given[i] = read_strings();
  TF_SessionRun(session, NULL, inputs, given, input_count, outputs, results, output_count, NULL, 0, NULL, status);
  check("run", status);
  for (int i = 0; i < output_count; i++) print_tensor(results[i]);
  return 0;
}
