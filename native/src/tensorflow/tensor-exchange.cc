#include "tensor-exchange.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <type_traits>

namespace hvd::tensorflow {
namespace {

struct Status;
struct OpDefinitionBuilder;
struct KernelBuilder;
struct OpKernelConstruction;
struct OpKernelContext;
struct ShapeInferenceContext;

// The functions of TensorFlow's C API that are used, by their names without TF_. Stable since TensorFlow 2.4.
#define HVD_TENSORFLOW_FUNCTIONS(F)                                                                          \
  F(NewStatus, Status*())                                                                                    \
  F(DeleteStatus, void(Status*))                                                                             \
  F(GetCode, int(const Status*))                                                                             \
  F(Message, const char*(const Status*))                                                                     \
  F(SetStatus, void(Status*, int, const char*))                                                              \
  F(NewOpDefinitionBuilder, OpDefinitionBuilder*(const char*))                                               \
  F(OpDefinitionBuilderAddAttr, void(OpDefinitionBuilder*, const char*))                                     \
  F(OpDefinitionBuilderAddInput, void(OpDefinitionBuilder*, const char*))                                    \
  F(OpDefinitionBuilderAddOutput, void(OpDefinitionBuilder*, const char*))                                   \
  F(OpDefinitionBuilderSetIsStateful, void(OpDefinitionBuilder*, bool))                                      \
  F(OpDefinitionBuilderSetShapeInferenceFunction,                                                            \
    void(OpDefinitionBuilder*, void (*)(ShapeInferenceContext*, Status*)))                                   \
  F(ShapeInferenceContextSetUnknownShape, void(ShapeInferenceContext*, Status*))                             \
  F(RegisterOpDefinition, void(OpDefinitionBuilder*, Status*))                                               \
  F(NewKernelBuilder, KernelBuilder*(const char*, const char*, void* (*)(OpKernelConstruction*),             \
                                     void (*)(void*, OpKernelContext*), void (*)(void*)))                    \
  F(RegisterKernelBuilder, void(const char*, KernelBuilder*, Status*))                                       \
  F(NumInputs, int(OpKernelContext*))                                                                        \
  F(NumOutputs, int(OpKernelContext*))                                                                       \
  F(GetInput, void(OpKernelContext*, int, Tensor**, Status*))                                                \
  F(SetOutput, void(OpKernelContext*, int, const Tensor*, Status*))                                          \
  F(OpKernelContext_Failure, void(OpKernelContext*, Status*))                                                \
  F(AllocateTensor, Tensor*(int, const int64_t*, int, size_t))                                               \
  F(DeleteTensor, void(Tensor*))                                                                             \
  F(TensorMaybeMove, Tensor*(Tensor*))                                                                       \
  F(TensorData, void*(const Tensor*))                                                                        \
  F(TensorByteSize, size_t(const Tensor*))                                                                   \
  F(TensorType, int(const Tensor*))                                                                          \
  F(NumDims, int(const Tensor*))                                                                             \
  F(Dim, int64_t(const Tensor*, int))

// Written once, by connect(); everything else here runs after it.
struct Api {
#define HVD_DECLARE(name, signature) std::add_pointer_t<signature> name = nullptr;
  HVD_TENSORFLOW_FUNCTIONS(HVD_DECLARE)
#undef HVD_DECLARE
} tf;

constexpr int internal_error = 13;  // TF_INTERNAL

thread_local std::unique_ptr<TensorList> inbox, outbox;

struct OwnStatus {
  Status* status = tf.NewStatus();
  ~OwnStatus() { tf.DeleteStatus(status); }
  bool ok() const { return tf.GetCode(status) == 0; }
};

void take(void*, OpKernelContext* context) {
  OwnStatus result;
  auto list = std::make_unique<TensorList>();
  for (int i = 0; i < tf.NumInputs(context); i++) {
    Tensor* tensor = nullptr;
    tf.GetInput(context, i, &tensor, result.status);
    if (!result.ok()) return tf.OpKernelContext_Failure(context, result.status);
    list->add(tensor);
  }
  inbox = std::move(list);
}

void give(void*, OpKernelContext* context) {
  OwnStatus result;
  std::unique_ptr<TensorList> list = std::move(outbox);
  if (!list || list->size() != static_cast<size_t>(tf.NumOutputs(context))) {
    tf.SetStatus(result.status, internal_error, "Horovod has not offered as many tensors as are asked for");
    return tf.OpKernelContext_Failure(context, result.status);
  }
  for (int i = 0; i < tf.NumOutputs(context); i++) {
    tf.SetOutput(context, i, list->at(static_cast<size_t>(i)), result.status);
    if (!result.ok()) return tf.OpKernelContext_Failure(context, result.status);
  }
}

// Finds the loaded libraries by their names: tfjs-node's own (libtensorflow.so.2) and the wheel's (libtensorflow_cc.so.2)
// both leave most of the C API to libtensorflow_framework.so.2.
std::vector<void*> find_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        if (info->dlpi_name && std::strstr(info->dlpi_name, "/libtensorflow"))
          static_cast<std::vector<std::string>*>(found)->push_back(info->dlpi_name);
        return 0;
      },
      &paths);
  std::vector<void*> libraries;
  for (const std::string& path : paths)
    if (void* library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY)) libraries.push_back(library);
  return libraries;
}

template <class Function>
bool find_function(const std::vector<void*>& libraries, const char* name, Function*& function) {
  for (void* library : libraries)
    if ((function = reinterpret_cast<Function*>(dlsym(library, name)))) return true;
  return false;
}

std::string register_operation(const std::string& name, bool has_inputs, void (*compute)(void*, OpKernelContext*)) {
  OwnStatus result;
  OpDefinitionBuilder* definition = tf.NewOpDefinitionBuilder(name.c_str());
  tf.OpDefinitionBuilderAddAttr(definition, "T: type");
  tf.OpDefinitionBuilderAddAttr(definition, "N: int >= 1");
  if (has_inputs) tf.OpDefinitionBuilderAddInput(definition, "tensors: N * T");
  else tf.OpDefinitionBuilderAddOutput(definition, "tensors: N * T");
  tf.OpDefinitionBuilderSetIsStateful(definition, true);
  tf.OpDefinitionBuilderSetShapeInferenceFunction(
      definition, [](ShapeInferenceContext* context, Status* status) { tf.ShapeInferenceContextSetUnknownShape(context, status); });
  tf.RegisterOpDefinition(definition, result.status);
  if (!result.ok()) return tf.Message(result.status);
  KernelBuilder* kernel = tf.NewKernelBuilder(name.c_str(), "CPU", nullptr, compute, nullptr);
  tf.RegisterKernelBuilder(name.c_str(), kernel, result.status);
  return result.ok() ? "" : tf.Message(result.status);
}

Connection make_connection(const std::vector<void*>& libraries) {
  Connection connection;
#define HVD_FIND(name, signature)                                            \
  if (!find_function<signature>(libraries, "TF_" #name, tf.name)) {          \
    connection.problem = "this TensorFlow has no function TF_" #name;        \
    return connection;                                                       \
  }
  HVD_TENSORFLOW_FUNCTIONS(HVD_FIND)
#undef HVD_FIND
  // TensorFlow aborts the process if a name is registered twice, as two copies of this addon in one process would do.
  std::string copy = std::to_string(reinterpret_cast<uintptr_t>(&tf));
  connection.take = "HorovodTake" + copy;
  connection.give = "HorovodGive" + copy;
  connection.problem = register_operation(connection.take, true, take);
  if (connection.problem.empty()) connection.problem = register_operation(connection.give, false, give);
  return connection;
}

}  // namespace

TensorList::~TensorList() {
  for (Tensor* tensor : tensors_) tf.DeleteTensor(tensor);
}

char* TensorList::data(size_t i) const { return static_cast<char*>(tf.TensorData(tensors_[i])); }

size_t TensorList::bytes(size_t i) const { return tf.TensorByteSize(tensors_[i]); }

bool TensorList::add_copy(int dtype, const std::vector<int64_t>& shape, const void* values, size_t bytes) {
  Tensor* tensor = tf.AllocateTensor(dtype, shape.data(), static_cast<int>(shape.size()), bytes);
  if (!tensor) return false;
  if (bytes > 0) std::memcpy(tf.TensorData(tensor), values, bytes);
  add(tensor);
  return true;
}

bool TensorList::own() {
  for (Tensor*& tensor : tensors_) {
    size_t bytes = tf.TensorByteSize(tensor);
    // May be moved: this reference is the only one, and the memory belongs to TensorFlow, not to a JavaScript array.
    if (bytes == 0 || tf.TensorMaybeMove(tensor)) continue;
    std::vector<int64_t> shape(static_cast<size_t>(tf.NumDims(tensor)));
    for (size_t i = 0; i < shape.size(); i++) shape[i] = tf.Dim(tensor, static_cast<int>(i));
    Tensor* copy =
        tf.AllocateTensor(tf.TensorType(tensor), shape.data(), static_cast<int>(shape.size()), bytes);
    if (!copy) return false;
    std::memcpy(tf.TensorData(copy), tf.TensorData(tensor), bytes);
    tf.DeleteTensor(tensor);
    tensor = copy;
  }
  return true;
}

const Connection& connect() {
  static const Connection not_yet{"", "", "TensorFlow is not loaded in this process"};
  std::vector<void*> libraries = find_libraries();
  if (libraries.empty()) return not_yet;
  static const Connection connection = make_connection(libraries);
  return connection;
}

std::unique_ptr<TensorList> collect() { return std::move(inbox); }

void offer(std::unique_ptr<TensorList> list) { outbox = std::move(list); }

}  // namespace hvd::tensorflow
