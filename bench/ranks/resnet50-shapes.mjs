// The shapes of ResNet-50's 161 trainable tensors, in the order of the layers: 53 convolutions, each followed by scale
// and shift of its batch normalisation, and the dense layer at the end; 25 557 032 floats in all.

const STAGES = [
  { blocks: 3, width: 64 },
  { blocks: 4, width: 128 },
  { blocks: 6, width: 256 },
  { blocks: 3, width: 512 },
];
const EXPANSION = 4;
const CLASSES = 1000;

export function resnet50Shapes() {
  const shapes = [];
  const convolution = (kernel, inputs, outputs) => {
    shapes.push([outputs, inputs, kernel, kernel], [outputs], [outputs]);
    return outputs;
  };
  let channels = convolution(7, 3, 64);
  for (const { blocks, width } of STAGES) {
    for (let block = 0; block < blocks; block++) {
      const inputs = channels;
      convolution(1, inputs, width);
      convolution(3, width, width);
      channels = convolution(1, width, width * EXPANSION);
      // Only the first block of a stage changes the shape, so only it needs a projection on the shortcut.
      if (block === 0) convolution(1, inputs, channels);
    }
  }
  shapes.push([CLASSES, channels], [CLASSES]);
  return shapes;
}

export function elements(shape) {
  return shape.reduce((product, length) => product * length, 1);
}
