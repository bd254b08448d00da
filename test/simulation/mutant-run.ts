/**
 * Runs a simulation of the folder that this file was copied to, and prints its first failure.
 * Arguments: the simulation and the number of seeds.
 */

import { escrowSimulation, homeSimulation } from './home/home-simulation.ts'
import { partitionSimulation } from './partition-simulation.ts'
import { sharedSimulation } from './shared-simulation.ts'
import { firstFailure, type Plan, type Simulation } from './simulation.ts'

const [name, seeds] = process.argv.slice(2)
const simulations = [sharedSimulation, partitionSimulation, homeSimulation, escrowSimulation]
const simulation = simulations.find((one) => one.name === name) as Simulation<Plan>
process.stdout.write((await firstFailure(simulation, 1, Number(seeds))) ?? '')
