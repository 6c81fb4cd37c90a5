"""muster's chains of transforms and what they are in torchvision: for make_golden.py and tests/parity/test_transforms.py."""

import torch
from torchvision.transforms import InterpolationMode, v2

NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR
BICUBIC, LANCZOS = InterpolationMode.BICUBIC, InterpolationMode.LANCZOS

# All bytes are torchvision's, whatever the machine, but for what is drawn: uniform numbers round by its kernels (golden/kernels.py).
EXACT = {
    "resize:size=20": v2.Resize(20),
    "resize:size=[11,40]": v2.Resize([11, 40]),
    "resize:size=20,max_size=25": v2.Resize(20, max_size=25),
    "resize:max_size=33": v2.Resize(None, max_size=33),
    "resize:size=[40,50],interpolation=bicubic": v2.Resize([40, 50], interpolation=BICUBIC),
    "resize:size=13,interpolation=lanczos": v2.Resize(13, interpolation=LANCZOS),
    "resize:size=13,antialias=false": v2.Resize(13, antialias=False),
    "resize:size=31,interpolation=bicubic,antialias=false": v2.Resize(31, interpolation=BICUBIC, antialias=False),
    "resize:size=17,interpolation=nearest": v2.Resize(17, interpolation=NEAREST),
    "resize:size=17,interpolation=nearest-exact": v2.Resize(17, interpolation=InterpolationMode.NEAREST_EXACT),
    "center_crop:size=9": v2.CenterCrop(9),
    "center_crop:size=[40,12]": v2.CenterCrop([40, 12]),
    "center_crop:size=[64,65]": v2.CenterCrop([64, 65]),
    "pad:padding=3,fill=7": v2.Pad(3, fill=7),
    "pad:padding=[1,2,3,4],padding_mode=reflect": v2.Pad([1, 2, 3, 4], padding_mode="reflect"),
    "pad:padding=[5,2],padding_mode=symmetric": v2.Pad([5, 2], padding_mode="symmetric"),
    "pad:padding=[5,2],padding_mode=edge": v2.Pad([5, 2], padding_mode="edge"),
    "pad:padding=[0,2,1,0],fill=[1,2,250]": v2.Pad([0, 2, 1, 0], fill=[1, 2, 250]),
    "random_crop:size=10": v2.RandomCrop(10),
    "random_crop:size=[21,22],padding=[1,2,3,4],fill=9": v2.RandomCrop([21, 22], padding=[1, 2, 3, 4], fill=9),
    "random_crop:size=[23,12],padding=4,padding_mode=reflect": v2.RandomCrop([23, 12], padding=4, padding_mode="reflect"),
    "random_crop:size=[50,20],pad_if_needed=true": v2.RandomCrop([50, 20], pad_if_needed=True),
    "random_resized_crop:size=16": v2.RandomResizedCrop(16),
    "random_resized_crop:size=[9,24],scale=[0.3,0.9],ratio=[0.5,2],interpolation=bicubic":
        v2.RandomResizedCrop([9, 24], scale=(0.3, 0.9), ratio=(0.5, 2.0), interpolation=BICUBIC),
    "random_resized_crop:size=12,scale=[0.9,1],ratio=[3,4]": v2.RandomResizedCrop(12, scale=(0.9, 1.0), ratio=(3.0, 4.0)),
    "random_horizontal_flip": v2.RandomHorizontalFlip(),
    "random_vertical_flip:p=0.3": v2.RandomVerticalFlip(0.3),
    "color_jitter:brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1": v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
    "color_jitter:brightness=[0.5,3],hue=[-0.5,0.2]": v2.ColorJitter(brightness=(0.5, 3.0), hue=(-0.5, 0.2)),
    "color_jitter:saturation=1.5": v2.ColorJitter(saturation=1.5),
    "grayscale": v2.Grayscale(),
    "grayscale:num_output_channels=3": v2.Grayscale(3),
    "random_grayscale:p=0.5": v2.RandomGrayscale(0.5),
    "random_erasing:p=0.8": v2.RandomErasing(0.8),
    "random_erasing:p=1,scale=[0.1,0.5],value=[1,2,250]": v2.RandomErasing(1.0, scale=(0.1, 0.5), value=[1, 2, 250]),
    "random_invert": v2.RandomInvert(),
    "random_posterize:bits=3": v2.RandomPosterize(3),
    "random_solarize:threshold=99.5": v2.RandomSolarize(99.5),
    "random_autocontrast": v2.RandomAutocontrast(),
    "random_equalize": v2.RandomEqualize(),
    "random_adjust_sharpness:sharpness_factor=1.8": v2.RandomAdjustSharpness(1.8),
    "random_rotation:degrees=[90,90]": v2.RandomRotation((90, 90)),
    "random_rotation:degrees=[180,180],expand=true": v2.RandomRotation((180, 180), expand=True),
    "random_resized_crop:size=16|random_horizontal_flip|color_jitter:brightness=0.2":
        v2.Compose([v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), v2.ColorJitter(0.2)]),
    "random_apply(random_crop:size=[20,19]|random_horizontal_flip):p=0.4":
        v2.RandomApply([v2.RandomCrop([20, 19]), v2.RandomHorizontalFlip()], p=0.4),
    "color_jitter:brightness=0.4,p=0.6": v2.RandomApply([v2.ColorJitter(0.4)], p=0.6),
    "random_choice(random_crop:size=12|resize:size=9|random_invert:p=0.5|random_posterize:bits=2,p=1)":
        v2.RandomChoice([v2.RandomCrop(12), v2.Resize(9), v2.RandomInvert(0.5), v2.RandomPosterize(2, p=1.0)]),
    "random_choice(random_invert:p=1|random_posterize:bits=2|random_crop:size=8):p=[0.7,1.1,0.2]":
        v2.RandomChoice([v2.RandomInvert(1.0), v2.RandomPosterize(2), v2.RandomCrop(8)], p=[0.7, 1.1, 0.2]),
    "random_order(random_crop:size=18|random_invert|random_posterize:bits=3)|random_vertical_flip":
        v2.Compose([v2.RandomOrder([v2.RandomCrop(18), v2.RandomInvert(), v2.RandomPosterize(3)]), v2.RandomVerticalFlip()]),
    "random_choice(sequential(random_crop:size=14|random_vertical_flip):p=1|resize:size=9)|random_invert":
        v2.Compose([v2.RandomChoice([v2.Compose([v2.RandomCrop(14), v2.RandomVerticalFlip()]), v2.Resize(9)]), v2.RandomInvert()]),
    "random_apply(random_choice(random_order(random_horizontal_flip|random_crop:size=16)|random_invert:p=1)|random_solarize:threshold=99.5):p=0.8":
        v2.RandomApply([v2.RandomChoice([v2.RandomOrder([v2.RandomHorizontalFlip(), v2.RandomCrop(16)]), v2.RandomInvert(1.0)]),
                        v2.RandomSolarize(99.5)], p=0.8),
}

# Pixels are sampled by matrix products and convolutions, which round by the machine's kernels: equal on one machine.
SAMPLED = {
    "random_rotation:degrees=30": v2.RandomRotation(30),
    "random_rotation:degrees=[10,80],expand=true,interpolation=bilinear": v2.RandomRotation((10, 80), expand=True, interpolation=BILINEAR),
    "random_rotation:degrees=90,center=[3,4],fill=[9,8,7],interpolation=bilinear":
        v2.RandomRotation(90, center=[3, 4], fill=[9, 8, 7], interpolation=BILINEAR),
    "random_rotation:degrees=45,fill=none": v2.RandomRotation(45, fill=None),
    "random_affine:degrees=20,translate=[0.1,0.3],scale=[0.7,1.3],shear=10":
        v2.RandomAffine(20, translate=(0.1, 0.3), scale=(0.7, 1.3), shear=10),
    "random_affine:degrees=[5,9],shear=[-5,5,3,20],interpolation=bilinear,fill=100,center=[0,0]":
        v2.RandomAffine((5, 9), shear=(-5, 5, 3, 20), interpolation=BILINEAR, fill=100, center=[0, 0]),
    "random_perspective:p=1": v2.RandomPerspective(p=1.0),
    "random_perspective:p=0.7,distortion_scale=0.2,interpolation=nearest,fill=3":
        v2.RandomPerspective(0.2, p=0.7, interpolation=NEAREST, fill=3),
    "gaussian_blur:kernel_size=5": v2.GaussianBlur(5),
    "gaussian_blur:kernel_size=[3,9],sigma=[0.5,4]": v2.GaussianBlur([3, 9], sigma=(0.5, 4.0)),
    "rand_augment": v2.RandAugment(),
    "rand_augment:num_ops=4,magnitude=14,interpolation=bilinear,fill=50":
        v2.RandAugment(4, magnitude=14, interpolation=BILINEAR, fill=50),
    "trivial_augment_wide": v2.TrivialAugmentWide(),
    "auto_augment": v2.AutoAugment(),
    "auto_augment:policy=cifar10,fill=0": v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10, fill=0),
    "auto_augment:policy=svhn,interpolation=bilinear": v2.AutoAugment(v2.AutoAugmentPolicy.SVHN, interpolation=BILINEAR),
}

# Floats 0 … 1, which may also differ by what LibTorch's kernels round.
FLOATS = {
    "resize:size=20": v2.Resize(20),
    "resize:size=20,interpolation=lanczos": v2.Resize(20, interpolation=LANCZOS),
    "pad:padding=2,fill=[0.1,0.2,0.3]": v2.Pad(2, fill=[0.1, 0.2, 0.3]),
    "pad:padding=[5,2],padding_mode=symmetric": v2.Pad([5, 2], padding_mode="symmetric"),
    "random_crop:size=[23,12],padding=4,padding_mode=reflect": v2.RandomCrop([23, 12], padding=4, padding_mode="reflect"),
    "center_crop:size=[40,12]": v2.CenterCrop([40, 12]),
    "color_jitter:brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1": v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
    "grayscale": v2.Grayscale(),
    "random_erasing:p=1,value=none": v2.RandomErasing(1.0, value="random"),
    "random_invert": v2.RandomInvert(),
    "random_posterize:bits=3": v2.RandomPosterize(3),
    "random_solarize:threshold=0.4": v2.RandomSolarize(0.4),
    "random_autocontrast": v2.RandomAutocontrast(),
    "random_equalize": v2.RandomEqualize(),
    "random_adjust_sharpness:sharpness_factor=1.8": v2.RandomAdjustSharpness(1.8),
    "gaussian_blur:kernel_size=5": v2.GaussianBlur(5),
    "random_rotation:degrees=30,interpolation=bilinear": v2.RandomRotation(30, interpolation=BILINEAR),
    "rand_augment": v2.RandAugment(),
    "to_dtype:dtype=uint8": v2.ToDtype(torch.uint8, scale=True),
    "to_dtype:dtype=float64": v2.ToDtype(torch.float64, scale=True),
}
