// quickstart_cnn's training step in dlib, as near as it gets: the same layers and sizes, Adam.
#include "steps_dlib.h"

#include <memory>
#include <vector>

#include <dlib/dnn.h>

namespace peers {
namespace {

using Image = dlib::matrix<dlib::rgb_pixel>;

template <int kFilters, class Below>
using convolution = dlib::con<kFilters, 3, 3, 1, 1, Below>;

using Network = dlib::loss_multiclass_log<dlib::fc<
    10,
    dlib::avg_pool_everything<dlib::relu<convolution<
        128, dlib::max_pool<2, 2, 2, 2, dlib::relu<convolution<64, dlib::input_rgb_image>>>>>>>>;

struct Training {
  explicit Training(long batch) : trainer(network, dlib::adam(0.0f, 0.9f, 0.999f)) {
    trainer.set_learning_rate(1e-3);
    for (long i = 0; i < batch; ++i) {
      Image image(32, 32);
      for (auto& pixel : image) {
        pixel = dlib::rgb_pixel(random.get_random_8bit_number(), random.get_random_8bit_number(),
                                random.get_random_8bit_number());
      }
      images.push_back(image);
      labels.push_back(random.get_random_32bit_number() % 10);
    }
  }
  // Waits for the step's end: the trainer works on a thread of its own.
  void step() {
    trainer.train_one_step(images, labels);
    trainer.get_net();
  }

  dlib::rand random{};
  Network network{};
  dlib::dnn_trainer<Network, dlib::adam> trainer;
  std::vector<Image> images{};
  std::vector<unsigned long> labels{};
};

}  // namespace

std::function<void()> dlib_cnn(long batch) {
  const auto training = std::make_shared<Training>(batch);
  return [training] { training->step(); };
}

}  // namespace peers
