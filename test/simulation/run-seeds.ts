/**
 * Runs seeds of a simulation of the folder that this file is in, and prints the first failure.
 * Arguments: the simulation, the first seed and the number of seeds.
 */

import { escrowSimulation, homeSimulation } from './home/home-simulation.ts'
import { partitionSimulation } from './partition-simulation.ts'
import { sharedSimulation } from './shared-simulation.ts'
import { firstFailure, type Plan, type Simulation } from './simulation.ts'

const [name, first, seeds] = process.argv.slice(2)
const simulations = [sharedSimulation, partitionSimulation, homeSimulation, escrowSimulation]
const simulation = simulations.find((one) => one.name === name) as Simulation<Plan>
process.stdout.write((await firstFailure(simulation, Number(first), Number(seeds))) ?? '')
