#pragma once
// The project's own words, separated by spaces.

#include <string_view>

namespace osdn::synth {

constexpr std::string_view kNouns =
    "anchor apple apron arrow attic autumn bakery balcony bamboo banner "
    "barley barrel basin basket battery beacon beaver bellows berry "
    "bicycle biscuit blanket blossom bonfire border bottle boulder bridge "
    "bronze bucket buffalo bungalow butter button cabin cactus camera "
    "canal candle canoe canvas caravan carpet castle cattle cavern cedar "
    "cellar chapel cherry chimney circus citadel clover cobble coffee "
    "comet compass copper coral corner cottage cotton cradle crater "
    "cricket crystal cupboard curtain cushion cypress dagger daisy desert "
    "diamond dolphin donkey drawer dungeon eagle easel ember emerald "
    "engine falcon feather fender ferry fiddle finger forest fountain "
    "fossil freighter furnace galaxy gallery garden garlic garnet geyser "
    "ginger glacier goblet granite grotto guitar hammer hammock harbor "
    "harvest hazel helmet heron hickory horizon hornet hostel iceberg "
    "island ivory jacket jaguar jasmine jewel jigsaw juniper kernel "
    "kettle kingdom kitchen ladder lagoon lantern lattice laurel lemon "
    "leopard lettuce library lighthouse lily lizard lobster locket lumber "
    "magnet mallet mango mansion maple marble market meadow melon mirror "
    "molasses monastery monsoon mosaic mountain muffin mushroom mustard "
    "napkin needle nettle nickel notebook nutmeg oasis oatmeal obelisk "
    "octopus olive onion orchard orchid organ osprey otter oyster paddle "
    "palace panther papaya parsley pasture pebble pelican pepper piano "
    "pigeon pillow pistachio pitcher planet plateau plaza pocket pond "
    "poplar porcelain prairie pumpkin puppet pyramid quarry quartz quill "
    "rabbit radish raft rainbow raven reef ribbon ridge river robin "
    "rocket rooster rosemary ruby saddle saffron salmon sandal satchel "
    "saucer scarf seashell shelter shovel shrine silver skillet sparrow "
    "spinach spindle spiral squirrel stable statue steeple stirrup summit "
    "sunflower swallow table tavern temple thimble thunder ticket tiger "
    "timber tobacco tomato torch tower tractor trumpet tulip tunnel "
    "turbine turnip turtle umbrella valley vanilla velvet village "
    "vineyard violet violin volcano waffle wagon walnut walrus waterfall "
    "weasel whistle willow window winter wizard zebra zephyr ";

constexpr std::string_view kAdjectives =
    "amber ancient angular aromatic ashen autumnal azure bitter blazing "
    "bold brave breezy brisk bright broad brittle bubbly careful charming "
    "cheerful chilly civic classic clever cloudy coastal colorful compact "
    "cozy crimson crisp crooked curious curly daring dazzling delicate "
    "distant dreamy dusty eager earnest elegant emerging enormous faded "
    "faithful famous fearless fertile festive fierce fluffy fragile "
    "frosty frozen fuzzy gentle gigantic gleaming glossy golden graceful "
    "grand grateful hardy hasty hidden hollow honest humble icy immense "
    "jolly joyful keen kindly languid lavish lively lofty lonely loyal "
    "lucid luminous magenta majestic mellow merry mighty misty modern "
    "modest muddy narrow nimble noble northern obscure orderly oval pale "
    "peaceful playful pleasant plucky polished proud prickly quaint quick "
    "quiet radiant rapid rare regal restful rigid robust rocky royal "
    "rugged rustic rusty salty scarlet secret serene shady shallow sharp "
    "shiny silent silky sleepy slender smooth snowy sober solemn solid "
    "southern sparkling speedy spicy steady stormy stout sturdy subtle "
    "sunny swift tangy tender thirsty thorny tidy timid tranquil trusty "
    "upright urban vast vibrant vivid wandering warm weary wild windy "
    "wise witty wooden woolen young zesty ";

constexpr std::string_view kFillerWords =
    "the a some most of them they we had have been were was near under "
    "over after before while when then there here again often seldom "
    "always never slowly early late today once more less than that this "
    "those with without from into about along across told asked gave took "
    "made found kept left went came saw heard knew said stood walked "
    "waited worked turned moved opened closed carried followed many few "
    "several another every other only just still even very quite rather ";

}  // namespace osdn::synth
