// Passes tensors between TensorFlow and us without copying their values. If TensorFlow's library is in this process
// (tfjs-node brought it), two operations are registered with it through its C API, found by name: we neither link
// nor include TensorFlow. The take operation has any number of inputs, which it leaves in this thread's inbox; the give
// operation has any number of outputs, which it finds in this thread's outbox. TensorFlow runs both in the calling
// thread, so inbox and outbox need no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hvd::tensorflow {

struct Tensor;  // TF_Tensor

// References to tensors; their memory stays as long as the list.
class TensorList {
 public:
  TensorList() = default;
  ~TensorList();
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;

  size_t size() const { return tensors_.size(); }
  char* data(size_t i) const;
  size_t bytes(size_t i) const;
  void add(Tensor* tensor) { tensors_.push_back(tensor); }
  Tensor* at(size_t i) const { return tensors_[i]; }

  // A new tensor with these values. `dtype` as in TensorFlow's TF_DataType; false: no memory.
  bool add_copy(int dtype, const std::vector<int64_t>& shape, const void* values, size_t bytes);

  // Makes each tensor's memory exclusive to the list, so that it may be written: shared memory is copied.
  // False: no memory.
  bool own();

 private:
  std::vector<Tensor*> tensors_;
};

struct Connection {
  std::string take, give;  // names of the operations
  std::string problem;     // why there are none; empty if there are
};

// Registers the operations when first called. A process has one TensorFlow.
const Connection& connect();

// What the take operation left in this thread's inbox; nullptr if it has not run since.
std::unique_ptr<TensorList> collect();

// What the give operation will return. It consumes the list.
void offer(std::unique_ptr<TensorList> list);

}  // namespace hvd::tensorflow
